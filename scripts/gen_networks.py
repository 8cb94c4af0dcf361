#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write the lists of convolutions in scripts/networks/ from the networks' published definitions.

Usage: scripts/gen_networks.py [--check]

Each network is a function that follows its definition layer by layer, with the shape of the data.
It also counts the parameters of the other layers, so that a test (tests/gpu/test_networks.py) can
compare the total with the published number. --check changes nothing, and fails if a list is
outdated. resnet50.txt and resnet50-forward.txt are written by hand; the same test checks them.
"""
import sys

import tree

DIRECTORY = tree.ROOT / "scripts/networks"


def each(value, rank):
    """Returns a tuple with one number for each axis; a single number is for all axes."""
    return (value,) * rank if isinstance(value, int) else tuple(value)


class Conv:
    """A convolution of one image. Convolutions with the same numbers are equal."""

    def __init__(self, **numbers):
        self.__dict__ = numbers

    def key(self):
        return tuple(sorted(self.__dict__.items()))

    def line(self, direction):
        """Returns it as a command line of MIOpenDriver, in which the directions are 1, 2 and 4."""
        deep = len(self.image) == 3
        words = ["conv -n 1"]
        if deep:
            words.append(f"--spatial_dim 3 -c {self.c} --in_d {self.image[0]}")
        else:
            words.append(f"-c {self.c}")
        words.append(f"-H {self.image[-2]} -W {self.image[-1]} -k {self.k}")
        for values, depth, flags in ((self.kernel, "--fil_d", "-y -x"),
                                     (self.pad, "--pad_d", "-p -q"),
                                     (self.stride, "--conv_stride_d", "-u -v"),
                                     (self.dilation, "--dilation_d", "-l -j")):
            words += [f"{depth} {values[0]}"] if deep else []
            words += [f"{flag} {value}" for flag, value in zip(flags.split(), values[-2:])]
        mode = "trans" if self.transposed else "conv"
        words.append(f"-m {mode} -g {self.groups} -F {direction} -t 1")
        return " ".join(words)


class Network:
    """What a definition has built so far. Data is represented by a tuple (channels, sizes of the
    image...)."""

    def __init__(self):
        self.convs = []
        self.parameters = 0

    def add(self, x, k, kernel, stride, pad, dilation, groups, transposed):
        rank = len(x) - 1
        c = Conv(c=x[0], image=x[1:], k=k, kernel=each(kernel, rank), stride=each(stride, rank),
                 pad=each(pad, rank), dilation=each(dilation, rank), groups=groups,
                 transposed=transposed)
        self.convs.append(c)
        taps = 1
        for size in c.kernel:
            taps *= size
        self.parameters += x[0] * k * taps // groups
        return c

    def conv(self, x, k, kernel, stride=1, pad=None, dilation=1, groups=1, bias=False, norm=True):
        """Adds a convolution. Without |pad|, the image keeps its size, divided by |stride|. With
        |norm|, a normalisation with scale and shift follows."""
        rank = len(x) - 1
        if pad is None:
            pad = tuple(d * (s - 1) // 2
                        for s, d in zip(each(kernel, rank), each(dilation, rank)))
        c = self.add(x, k, kernel, stride, pad, dilation, groups, False)
        self.parameters += k * bias + 2 * k * norm
        return (k, *((i + 2 * p - d * (s - 1) - 1) // t + 1 for i, p, d, s, t
                     in zip(c.image, c.pad, c.dilation, c.kernel, c.stride)))

    def transposed(self, x, k, kernel, stride=1, pad=0, bias=False, norm=True):
        c = self.add(x, k, kernel, stride, pad, 1, 1, True)
        self.parameters += k * bias + 2 * k * norm
        return (k, *((i - 1) * t - 2 * p + s
                     for i, p, s, t in zip(c.image, c.pad, c.kernel, c.stride)))

    def linear(self, c, k, bias=True):
        self.parameters += c * k + k * bias

    def norm(self, c):
        self.parameters += 2 * c

    def distinct(self):
        """Returns [(convolution, how often it occurs)], in the order of the first occurrence."""
        counts = {}
        for c in self.convs:
            first, count = counts.get(c.key(), (c, 0))
            counts[c.key()] = (first, count + 1)
        return list(counts.values())


def sized(x, *image):
    return (x[0], *image)


def pooled(x, factor=2):
    return (x[0], *(size // factor for size in x[1:]))


def joined(*parts):
    return (sum(p[0] for p in parts), *parts[0][1:])


# ---- images: classification

def bottleneck(n, x, planes, stride, dilation, groups, base):
    """The block of ResNet v1.5 and ResNeXt, whose 3x3 convolution has the stride."""
    width = planes * base // 64 * groups
    y = n.conv(n.conv(x, width, 1), width, 3, stride, dilation=dilation, groups=groups)
    y = n.conv(y, planes * 4, 1)
    if stride > 1 or x[0] != planes * 4:
        n.conv(x, planes * 4, 1, stride)
    return y


def resnet_features(n, size, blocks, groups=1, base=64, dilated_from=4):
    """Returns the output of each stage. Stages from |dilated_from| on have dilation instead of a
    stride."""
    x = n.conv((3, size, size), 64, 7, 2)
    x = sized(x, *((s + 1) // 2 for s in x[1:]))
    dilation, stages = 1, []
    for stage, count in enumerate(blocks):
        stride, before = (2 if stage else 1), dilation
        if stage >= dilated_from:
            dilation, stride = dilation * stride, 1
        for block in range(count):
            x = bottleneck(n, x, 64 << stage, 1 if block else stride,
                           dilation if block else before, groups, base)
        stages.append(x)
    return stages


def resnet50(n):
    resnet_features(n, 224, (3, 4, 6, 3))
    n.linear(2048, 1000)


def resnext50(n):
    resnet_features(n, 224, (3, 4, 6, 3), groups=32, base=4)
    n.linear(2048, 1000)


def resnext101(n):
    resnet_features(n, 224, (3, 4, 23, 3), groups=64, base=4)
    n.linear(2048, 1000)


def squeeze_excite(n, c, squeezed):
    x = n.conv((c, 1, 1), squeezed, 1, bias=True, norm=False)
    n.conv(x, c, 1, bias=True, norm=False)


def regnety_16gf(n):
    x = n.conv((3, 224, 224), 32, 3, 2)
    for width, depth in ((224, 2), (448, 4), (1232, 11), (3024, 1)):
        for block in range(depth):
            stride = 1 if block else 2
            if not block:
                n.conv(x, width, 1, stride)
            y = n.conv(n.conv(x, width, 1), width, 3, stride, groups=width // 112)
            squeeze_excite(n, width, round(x[0] / 4))
            x = n.conv(y, width, 1)
    n.linear(3024, 1000)


def efficientnetv2_s(n):
    x = n.conv((3, 300, 300), 24, 3, 2)
    for fused, expand, stride, k, count in (
            (True, 1, 1, 24, 2), (True, 4, 2, 48, 4), (True, 4, 2, 64, 4),
            (False, 4, 2, 128, 6), (False, 6, 1, 160, 9), (False, 6, 2, 256, 15)):
        for block in range(count):
            s, c = (1 if block else stride), x[0]
            if not fused:
                y = n.conv(n.conv(x, c * expand, 1), c * expand, 3, s, groups=c * expand)
                squeeze_excite(n, c * expand, c // 4)
                x = n.conv(y, k, 1)
            elif expand > 1:
                x = n.conv(n.conv(x, c * expand, 3, s), k, 1)
            else:
                x = n.conv(x, k, 3, s)
    n.conv(x, 1280, 1)
    n.linear(1280, 1000)


def convnext_b(n):
    x, stride = (3, 224, 224), 4
    for stage, (depth, c) in enumerate(((3, 128), (3, 256), (27, 512), (3, 1024))):
        if stage:
            n.norm(x[0])
        x = n.conv(x, c, stride, stride, pad=0, bias=True, norm=not stage)
        stride = 2
        for _ in range(depth):
            x = n.conv(x, c, 7, groups=c, bias=True)
            n.linear(c, 4 * c)
            n.linear(4 * c, c)
            n.parameters += c  # the layer's scale
    n.norm(1024)
    n.linear(1024, 1000)


def divisible(value, by=8):
    rounded = max(by, int(value + by / 2) // by * by)
    return rounded + by if rounded < 0.9 * value else rounded


def mobilenetv3_l(n):
    x = n.conv((3, 224, 224), 16, 3, 2)
    for kernel, expanded, k, squeezes, stride in (
            (3, 16, 16, 0, 1), (3, 64, 24, 0, 2), (3, 72, 24, 0, 1), (5, 72, 40, 1, 2),
            (5, 120, 40, 1, 1), (5, 120, 40, 1, 1), (3, 240, 80, 0, 2), (3, 200, 80, 0, 1),
            (3, 184, 80, 0, 1), (3, 184, 80, 0, 1), (3, 480, 112, 1, 1), (3, 672, 112, 1, 1),
            (5, 672, 160, 1, 2), (5, 960, 160, 1, 1), (5, 960, 160, 1, 1)):
        if expanded != x[0]:
            x = n.conv(x, expanded, 1)
        x = n.conv(x, expanded, kernel, stride, groups=expanded)
        if squeezes:
            squeeze_excite(n, expanded, divisible(expanded // 4))
        x = n.conv(x, k, 1)
    n.conv(x, 960, 1)
    n.linear(960, 1280)
    n.linear(1280, 1000)


def inception_v3(n):
    """Inception v3 without the auxiliary classifier."""
    def chain(x, *layers):
        for k, kernel in layers:
            x = n.conv(x, k, kernel)
        return x

    def reduced(x, k, image):
        return sized(n.conv(x, k, 3, 2, pad=0), *image)

    def fork(x):
        return joined(n.conv(x, 384, (1, 3)), n.conv(x, 384, (3, 1)))

    row, column = (1, 7), (7, 1)
    x = n.conv(n.conv((3, 299, 299), 32, 3, 2, pad=0), 32, 3, pad=0)
    x = sized(n.conv(x, 64, 3), 73, 73)
    x = sized(n.conv(n.conv(x, 80, 1), 192, 3, pad=0), 35, 35)
    for pool in (32, 64, 64):
        x = joined(chain(x, (64, 1)), chain(x, (48, 1), (64, 5)),
                   chain(x, (64, 1), (96, 3), (96, 3)), chain(x, (pool, 1)))
    x = joined(reduced(x, 384, (17, 17)),
               reduced(chain(x, (64, 1), (96, 3)), 96, (17, 17)), sized(x, 17, 17))
    for c in (128, 160, 160, 192):
        x = joined(chain(x, (192, 1)), chain(x, (c, 1), (c, row), (192, column)),
                   chain(x, (c, 1), (c, column), (c, row), (c, column), (192, row)),
                   chain(x, (192, 1)))
    x = joined(reduced(chain(x, (192, 1)), 320, (8, 8)),
               reduced(chain(x, (192, 1), (192, row), (192, column)), 192, (8, 8)), sized(x, 8, 8))
    for _ in range(2):
        x = joined(chain(x, (320, 1)), fork(chain(x, (384, 1))),
                   fork(chain(x, (448, 1), (384, 3))), chain(x, (192, 1)))
    n.linear(2048, 1000)


def patches(n):
    """The first layers of the vision transformers ViT-B/16, ViT-L/14, Swin-T and Swin-B."""
    for k, size in ((768, 16), (1024, 14), (96, 4), (128, 4)):
        n.conv((3, 224, 224), k, size, size, pad=0, bias=True, norm=False)


# ---- images: segmentation and detection

def deeplabv3(n):
    """DeepLabv3, including the auxiliary head that torchvision's weights have."""
    *_, third, x = resnet_features(n, 513, (3, 4, 6, 3), dilated_from=2)
    parts = [n.conv(x, 256, 1)] + [n.conv(x, 256, 3, dilation=d) for d in (12, 24, 36)]
    n.conv((2048, 1, 1), 256, 1)
    x = n.conv(n.conv(joined(*parts, parts[0]), 256, 1), 256, 3)
    n.conv(x, 21, 1, bias=True, norm=False)
    n.conv(n.conv(third, 256, 3), 21, 1, bias=True, norm=False)


def yolov8_m(n):
    def c2f(x, k, count):
        half = k // 2
        x = n.conv(x, k, 1)
        for _ in range(count):
            n.conv(n.conv(sized((half,), *x[1:]), half, 3), half, 3)
        return n.conv(sized(((2 + count) * half,), *x[1:]), k, 1)

    x = n.conv(n.conv((3, 640, 640), 48, 3, 2), 96, 3, 2)
    x = c2f(x, 96, 2)
    fine = c2f(n.conv(x, 192, 3, 2), 192, 4)
    middle = c2f(n.conv(fine, 384, 3, 2), 384, 4)
    coarse = c2f(n.conv(middle, 576, 3, 2), 576, 2)
    x = n.conv(coarse, 288, 1)
    coarse = n.conv(joined(x, x, x, x), 576, 1)  # spatial pyramid pooling
    up = c2f(joined(sized(coarse, 40, 40), middle), 384, 2)
    first = c2f(joined(sized(up, 80, 80), fine), 192, 2)
    second = c2f(joined(n.conv(first, 192, 3, 2), up), 384, 2)
    third = c2f(joined(n.conv(second, 384, 3, 2), coarse), 576, 2)
    for x in (first, second, third):
        for inner, k in ((64, 64), (192, 80)):
            n.conv(n.conv(n.conv(x, inner, 3), inner, 3), k, 1, bias=True, norm=False)
    n.conv((16, 4, 8400), 1, 1, norm=False)  # the distances of all boxes


def unet(n):
    """U-Net as in its paper, without padding and for an image of 572 x 572."""
    def twice(x, k):
        for _ in range(2):
            x = n.conv(x, k, 3, pad=0, bias=True, norm=False)
        return x

    x = twice((1, 572, 572), 64)
    for k in (128, 256, 512, 1024):
        x = twice(pooled(x), k)
    for k in (512, 256, 128, 64):
        x = n.transposed(x, k, 2, 2, bias=True, norm=False)
        x = twice(joined(x, x), k)
    n.conv(x, 2, 1, bias=True, norm=False)


def nnunet_3d(n):
    """nnU-Net's 3-D full-resolution network for BraTS, with 4 input images, 3 output regions and
    deep supervision."""
    def twice(x, k, stride=1):
        x = n.conv(x, k, 3, stride, bias=True)
        return n.conv(x, k, 3, bias=True)

    x, skips = (4, 128, 128, 128), []
    for stage, k in enumerate((32, 64, 128, 256, 320, 320)):
        x = twice(x, k, 2 if stage else 1)
        skips.append(x)
    for skip in reversed(skips[:-1]):
        x = n.transposed(x, skip[0], 2, 2, bias=True, norm=False)
        x = twice(joined(x, skip), skip[0])
        n.conv(x, 3, 1, bias=True, norm=False)


# ---- images: generation

def dcgan(n):
    """DCGAN's generator and discriminator, for images of 64 x 64."""
    x = n.transposed((100, 1, 1), 512, 4)
    for k in (256, 128, 64):
        x = n.transposed(x, k, 4, 2, 1)
    x = n.transposed(x, 3, 4, 2, 1, norm=False)
    x = n.conv(x, 64, 4, 2, 1, norm=False)
    for k in (128, 256, 512):
        x = n.conv(x, k, 4, 2, 1)
    n.conv(x, 1, 4, 1, 0, norm=False)


def residual(n, x, k, time=0):
    """The residual block of Stable Diffusion's networks. |time| is the size of the time embedding.
    """
    n.norm(x[0])
    y = n.conv(x, k, 3, bias=True)
    if time:
        n.linear(time, k)
    n.conv(y, k, 3, bias=True, norm=False)
    if x[0] != k:
        n.conv(x, k, 1, bias=True, norm=False)
    return y


def transformer(n, c, depth):
    n.norm(c)
    n.linear(c, c)
    for _ in range(depth):
        for context in (c, 2048):
            n.norm(c)
            n.linear(c, c, bias=False)
            n.linear(context, 2 * c, bias=False)
            n.linear(c, c)
        n.norm(c)
        n.linear(c, 8 * c)
        n.linear(4 * c, c)
    n.linear(c, c)


def sdxl_unet(n):
    """Stable Diffusion XL's U-Net, for images of 1024 x 1024."""
    time = 1280

    def block(x, k, depth):
        x = residual(n, x, k, time)
        if depth:
            transformer(n, k, depth)
        return x

    for c in (320, 2816):
        n.linear(c, time)
        n.linear(time, time)
    x = n.conv((4, 128, 128), 320, 3, bias=True, norm=False)
    skips = [x]
    for k, depth in ((320, 0), (640, 2), (1280, 10)):
        for _ in range(2):
            x = block(x, k, depth)
            skips.append(x)
        if k < 1280:
            x = n.conv(x, k, 3, 2, bias=True, norm=False)
            skips.append(x)
    x = residual(n, block(x, 1280, 10), 1280, time)
    for k, depth in ((1280, 10), (640, 2), (320, 0)):
        for _ in range(3):
            x = block(joined(x, skips.pop()), k, depth)
        if k > 320:
            x = n.conv(sized(x, *(2 * s for s in x[1:])), k, 3, bias=True, norm=False)
    n.norm(320)
    n.conv(x, 4, 3, bias=True, norm=False)


def sdxl_vae(n):
    """Stable Diffusion XL's encoder and decoder, for images of 1024 x 1024."""
    def middle(x):
        x = residual(n, x, 512)
        n.norm(512)
        for _ in range(4):
            n.linear(512, 512)
        return residual(n, x, 512)

    def plain(x, k, kernel, **more):
        return n.conv(x, k, kernel, bias=True, norm=False, **more)

    x = plain((3, 1024, 1024), 128, 3)
    for k in (128, 256, 512, 512):
        x = residual(n, residual(n, x, k), k)
        if x[1] > 128:  # first padded on two of its sides
            x = plain(sized(x, x[1] + 1, x[2] + 1), k, 3, stride=2, pad=0)
    x = middle(x)
    n.norm(512)
    x = plain(plain(x, 8, 3), 8, 1)  # the mean and the variance of each of 4 channels
    x = middle(plain(plain(sized((4,), *x[1:]), 4, 1), 512, 3))
    for k in (512, 512, 256, 128):
        x = residual(n, residual(n, residual(n, x, k), k), k)
        if x[1] < 1024:
            x = plain(sized(x, *(2 * s for s in x[1:])), k, 3)
    n.norm(128)
    plain(x, 3, 3)


# ---- videos

def slowfast_block(n, x, inner, k, temporal, stride):
    y = n.conv(x, inner, (temporal, 1, 1))
    y = n.conv(n.conv(y, inner, (1, 3, 3), (1, stride, stride)), k, 1)
    if stride > 1 or x[0] != k:
        n.conv(x, k, 1, (1, stride, stride))
    return y


def slowfast(n):
    """SlowFast 8x8 with ResNet-50: 8 frames of 256 x 256 on the slow path, 32 on the fast path."""
    def fused(slow, fast):
        return joined(slow, n.conv(fast, 2 * fast[0], (7, 1, 1), (4, 1, 1)))

    slow = n.conv((3, 8, 256, 256), 64, (1, 7, 7), (1, 2, 2))
    fast = n.conv((3, 32, 256, 256), 8, (5, 7, 7), (1, 2, 2))
    slow, fast = ((x[0], x[1], 64, 64) for x in (slow, fast))
    for stage, count in enumerate((3, 4, 6, 3)):
        slow = fused(slow, fast)
        for block in range(count):
            stride = 2 if stage and not block else 1
            temporal = 1 if stage < 2 else 3
            slow = slowfast_block(n, slow, 64 << stage, 256 << stage, temporal, stride)
            fast = slowfast_block(n, fast, 8 << stage, 32 << stage, 3, stride)
    n.linear(2048 + 256, 400)


def r3d_18(n):
    """A ResNet-18 with filters of 3x3x3, for 16 frames of 112 x 112."""
    x = n.conv((3, 16, 112, 112), 64, (3, 7, 7), (1, 2, 2))
    for stage in range(4):
        k = 64 << stage
        for block in range(2):
            stride = 2 if stage and not block else 1
            y = n.conv(n.conv(x, k, 3, stride), k, 3)
            if stride > 1:
                n.conv(x, k, 1, stride)
            x = y
    n.linear(512, 400)


# ---- lists

# Title, batch size and definition of each list. The batch size is the paper's, or one that is usual
# on a GPU.
NETWORKS = {
    "resnext50": ("ResNeXt-50 32x4d", 64, resnext50),
    "resnext101": ("ResNeXt-101 64x4d", 64, resnext101),
    "regnety-16gf": ("RegNetY-16GF", 64, regnety_16gf),
    "efficientnetv2-s": ("EfficientNetV2-S", 64, efficientnetv2_s),
    "convnext-b": ("ConvNeXt-B", 64, convnext_b),
    "mobilenetv3-l": ("MobileNetV3-L", 64, mobilenetv3_l),
    "inception-v3": ("Inception v3", 64, inception_v3),
    "patches": ("Patch layers of ViT-B/16, ViT-L/14, Swin-T and Swin-B", 64, patches),
    "deeplabv3": ("DeepLabv3 with ResNet-50", 16, deeplabv3),
    "yolov8-m": ("YOLOv8-m", 16, yolov8_m),
    "unet": ("U-Net", 1, unet),
    "nnunet-3d": ("nnU-Net 3-D for BraTS", 2, nnunet_3d),
    "dcgan": ("DCGAN", 128, dcgan),
    "sdxl-unet": ("Stable Diffusion XL's U-Net", 2, sdxl_unet),
    "sdxl-vae": ("Stable Diffusion XL's VAE", 1, sdxl_vae),
    "slowfast": ("SlowFast 8x8 R50", 8, slowfast),
    "r3d-18": ("ResNet 3-D 18", 32, r3d_18),
}

HEADER = """\
# {title}: the {distinct} distinct convolutions of its {all}, for one image and in single
# precision. Each is listed in three directions: -F 1 is forward, -F 2 backward data, -F 4 backward
# weights. The number in brackets says how often the convolution occurs in one forward pass.
#
# Generated by scripts/gen_networks.py. Each line is a MIOpenDriver command line. The list is read
# by kiln-driver run FILE, by kilnctl prefetch FILE, and by scripts/bench-gpu with this batch size:
# batch {batch}
"""


def built(definition):
    network = Network()
    definition(network)
    return network


def text_of(name):
    title, batch, definition = NETWORKS[name]
    network = built(definition)
    distinct = network.distinct()
    lines = HEADER.format(title=title, distinct=len(distinct), all=len(network.convs),
                          batch=batch).splitlines()
    for c, count in distinct:
        lines += ["", f"# [{count}]"] + [c.line(direction) for direction in (1, 2, 4)]
    return "\n".join(lines) + "\n"


def main():
    stale = []
    for name in NETWORKS:
        path = DIRECTORY / f"{name}.txt"
        text = text_of(name)
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(name)
    if stale:
        print(f"scripts/networks/ is stale: run scripts/gen_networks.py ({', '.join(stale)})",
              file=sys.stderr)
        return 1
    print(f"{len(NETWORKS)} lists agree with their networks' definitions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
