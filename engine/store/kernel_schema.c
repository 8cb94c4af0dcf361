/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_history.def"
#include "engine/store/kernel_store_parts.h"

extern const unsigned char schema_kernels_0001[];
extern const unsigned long schema_kernels_0001_size;
extern const unsigned char schema_kernels_0002[];
extern const unsigned long schema_kernels_0002_size;
extern const unsigned char schema_kernels_0003[];
extern const unsigned long schema_kernels_0003_size;
extern const unsigned char schema_kernels_0004[];
extern const unsigned long schema_kernels_0004_size;
extern const unsigned char schema_kernels_0005[];
extern const unsigned long schema_kernels_0005_size;
extern const unsigned char schema_kernels_0006[];
extern const unsigned long schema_kernels_0006_size;
extern const unsigned char schema_kernels_0007[];
extern const unsigned long schema_kernels_0007_size;
extern const unsigned char schema_kernels_0008[];
extern const unsigned long schema_kernels_0008_size;
extern const unsigned char schema_kernels_0009[];
extern const unsigned long schema_kernels_0009_size;

static const struct db_migration migrations[] = {
    { schema_kernels_0001, &schema_kernels_0001_size },
    { schema_kernels_0002, &schema_kernels_0002_size },
    { schema_kernels_0003, &schema_kernels_0003_size },
    { schema_kernels_0004, &schema_kernels_0004_size },
    { schema_kernels_0005, &schema_kernels_0005_size },
    { schema_kernels_0006, &schema_kernels_0006_size },
    { schema_kernels_0007, &schema_kernels_0007_size },
    { schema_kernels_0008, &schema_kernels_0008_size },
    { schema_kernels_0009, &schema_kernels_0009_size },
};

const struct db_schema kernel_schema = {
    .name = "kernels",
    .application_id = 0x4b4c4e31, /* "KLN1" */
    .migrations = migrations,
    .count = sizeof(migrations) / sizeof(migrations[0]),
};

const char *const kernel_statements[KERNEL_STATEMENT_COUNT] = {
#define KERNEL_STATEMENT(name, text) [KERNEL_##name] = text,
#include "engine/store/kernel_statements.def"
#undef KERNEL_STATEMENT
};
