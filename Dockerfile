# kiln in three stages:
#   docker build --target build      the packages that a build needs, and a build of kiln
#   docker build --target run        kilnd, its tools and libkiln
#   docker build --target embedded   only kiln-driver, linked with the engine and its data
#
# The stage 'embedded' takes the variables of docs/embedding.md as build arguments, such as
# --build-arg KILN_EMBED_DB="gfx906_60". Put databases and problems into the directory 'embed' of the
# source tree (/src/embed in the image). KILN_COMPILERS lists Debian packages of compilers for
# KILN_DEVICE_TARGETS, such as libamdhip64-5 (hiprtc) or pocl-opencl-icd.
FROM debian:12 AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends cmake gcc libc6-dev binutils ca-certificates
WORKDIR /src
COPY install_deps.cmake /src/
COPY cmake/requirements.cmake /src/cmake/
RUN cmake -P install_deps.cmake --minimum
COPY . /src
RUN cmake -S /src -B /build -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DKILN_TESTS=OFF \
        -DCMAKE_INSTALL_PREFIX=/usr \
    && cmake --build /build \
    && DESTDIR=/out cmake --install /build

FROM debian:12 AS run
RUN apt-get update \
    && apt-get install -y --no-install-recommends libuv1 libsqlite3-0 libzstd1 libcjson1 libnettle8 libhogweed6 \
        libbz2-1.0 libseccomp2 libcurl4 libncurses6 ca-certificates \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/ /
RUN ldconfig
CMD ["kilnd", "--socket", "/run/kiln/kilnd.sock"]

FROM build AS embedded-build
ARG KILN_EMBED_DB=""
ARG KILN_BINCACHE_PATH=""
ARG KILN_BINCACHE_SHA256=""
ARG KILN_DEVICE_TARGETS=""
ARG KILN_EMBED_PROBLEMS=""
ARG KILN_DISABLE_USERDB="OFF"
ARG KILN_DISABLE_SYSDB="OFF"
ARG KILN_COMPILERS=""
RUN test -z "$KILN_COMPILERS" || apt-get install -y --no-install-recommends $KILN_COMPILERS
RUN cmake -S /src -B /build -DKILN_EMBED_BUILD=ON -DKILN_EMBED_DB="$KILN_EMBED_DB" -DKILN_DB_PATH=/src/embed \
        -DKILN_BINCACHE_PATH="$KILN_BINCACHE_PATH" -DKILN_BINCACHE_SHA256="$KILN_BINCACHE_SHA256" \
        -DKILN_DEVICE_TARGETS="$KILN_DEVICE_TARGETS" -DKILN_EMBED_PROBLEMS="$KILN_EMBED_PROBLEMS" \
        -DKILN_DISABLE_USERDB="$KILN_DISABLE_USERDB" -DKILN_DISABLE_SYSDB="$KILN_DISABLE_SYSDB" \
    && cmake --build /build \
    && DESTDIR=/embedded cmake --install /build --component kiln-embedded

FROM debian:12 AS embedded
RUN apt-get update \
    && apt-get install -y --no-install-recommends libcjson1 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=embedded-build /embedded/usr/bin/kiln-driver /usr/bin/kiln-driver
ENTRYPOINT ["kiln-driver"]
