/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_pointer.h"

#include "common/base/array.h"
#include "common/base/hex.h"
#include "common/base/units.h"

#include <stdio.h>
#include <string.h>

#define FORMAT "kiln-fleet-pointer-1"
#define NUMBER_MAX 20 /* digits of a 64-bit number */

void fleet_pointer_write(const struct fleet_pointer *pointer, char text[FLEET_POINTER_MAX])
{
    char hex[DIGEST_HEX_SIZE];
    digest_to_hex(&pointer->sha256, hex);
    snprintf(text, FLEET_POINTER_MAX, FORMAT " %llu %s\n", (unsigned long long)pointer->epoch, hex);
}

/* Takes the word before the character |end|. Returns false if there is no |end|, or if the word has
 * |size| or more bytes. */
static bool take_word(struct bytes *text, char end, char *ret_word, size_t size)
{
    const uint8_t *at = text->size ? memchr(text->data, end, text->size) : NULL;
    size_t length = at ? (size_t)(at - text->data) : size;
    if (length >= size || memchr(text->data, 0, length))
        return false;
    memcpy(ret_word, text->data, length);
    ret_word[length] = '\0';
    *text = bytes_of(at + 1, text->size - length - 1);
    return true;
}

static bool take_number(struct bytes *text, char end, uint64_t *ret_number)
{
    char word[NUMBER_MAX + 1];
    return take_word(text, end, word, sizeof(word)) &&
           units_parse_number(word, UINT64_MAX, ret_number);
}

bool fleet_pointer_read(struct bytes text, struct fleet_pointer *ret_pointer)
{
    char format[sizeof(FORMAT)], hex[DIGEST_HEX_SIZE];
    struct fleet_pointer pointer;
    bool is_fine = take_word(&text, ' ', format, sizeof(format)) && strcmp(format, FORMAT) == 0 &&
                   take_number(&text, ' ', &pointer.epoch) &&
                   take_word(&text, '\n', hex, sizeof(hex)) && text.size == 0 &&
                   digest_from_hex(hex, &pointer.sha256);
    if (is_fine)
        *ret_pointer = pointer;
    return is_fine;
}

void fleet_epochs_done(struct fleet_epochs *epochs)
{
    free(epochs->list);
    *epochs = (struct fleet_epochs){ 0 };
}

static bool append_epoch(struct fleet_epochs *epochs, const struct fleet_epoch *entry)
{
    if (epochs->count == FLEET_EPOCHS_MAX) {
        epochs->count--;
        memmove(epochs->list, epochs->list + 1, epochs->count * sizeof(*epochs->list));
    }
    if (!ARRAY_RESERVE(epochs->list, epochs->count, epochs->capacity, 16))
        return false;
    epochs->list[epochs->count++] = *entry;
    return true;
}

static bool read_epoch(struct bytes *text, struct fleet_epoch *ret_entry)
{
    uint8_t unused[(FLEET_SHARD_ID_SIZE - 1) / 2];
    char id[2 * FLEET_KEY_ID_SIZE + 1];
    return take_word(text, ' ', ret_entry->shard_id, sizeof(ret_entry->shard_id)) &&
           hex_read(ret_entry->shard_id, unused, sizeof(unused)) &&
           take_word(text, ' ', id, sizeof(id)) &&
           hex_read(id, ret_entry->key_id, FLEET_KEY_ID_SIZE) &&
           take_number(text, '\n', &ret_entry->epoch);
}

bool fleet_epochs_read(struct bytes text, struct fleet_epochs *ret_epochs)
{
    *ret_epochs = (struct fleet_epochs){ 0 };
    while (text.size > 0) {
        struct fleet_epoch entry;
        if (!read_epoch(&text, &entry) || !append_epoch(ret_epochs, &entry))
            return false;
    }
    return true;
}

void fleet_epochs_write(const struct fleet_epochs *epochs, struct buffer *ret_text)
{
    for (size_t i = 0; i < epochs->count; i++) {
        const struct fleet_epoch *entry = &epochs->list[i];
        char line[FLEET_POINTER_MAX], id[2 * FLEET_KEY_ID_SIZE + 1];
        hex_write(entry->key_id, FLEET_KEY_ID_SIZE, id);
        int size = snprintf(line, sizeof(line), "%s %s %llu\n", entry->shard_id, id,
                            (unsigned long long)entry->epoch);
        buffer_put(ret_text, line, (size_t)size);
    }
}

static void shard_id_of(const struct fleet_index *index, char id[FLEET_SHARD_ID_SIZE])
{
    const struct fleet_shard shard = fleet_index_shard(index);
    fleet_shard_id(&shard, id);
}

enum fleet_fault fleet_epochs_check(const struct fleet_epochs *epochs,
                                    const struct fleet_trust *trust,
                                    const struct fleet_index *index)
{
    char id[FLEET_SHARD_ID_SIZE];
    shard_id_of(index, id);
    for (size_t i = 0; i < epochs->count; i++) {
        const struct fleet_epoch *entry = &epochs->list[i];
        if (strcmp(entry->shard_id, id) == 0 && entry->epoch > fleet_index_epoch(index) &&
            fleet_trust_may_index(trust, entry->key_id))
            return FLEET_FAULT_ROLLED_BACK;
    }
    return FLEET_FAULT_NONE;
}

/* Removes the older entry of the same shard and signer. The caller appends the new entry, so the
 * list stays in the order of changes. */
static void drop_epoch(struct fleet_epochs *epochs, const struct fleet_epoch *entry)
{
    size_t kept = 0;
    for (size_t i = 0; i < epochs->count; i++) {
        const struct fleet_epoch *old = &epochs->list[i];
        bool is_same = strcmp(old->shard_id, entry->shard_id) == 0 &&
                       memcmp(old->key_id, entry->key_id, FLEET_KEY_ID_SIZE) == 0;
        if (!is_same)
            epochs->list[kept++] = *old;
    }
    epochs->count = kept;
}

enum kiln_code fleet_epochs_note(struct fleet_epochs *epochs, const struct fleet_index *index,
                                 struct kiln_err *err)
{
    struct fleet_epoch entry = { .epoch = fleet_index_epoch(index) };
    shard_id_of(index, entry.shard_id);
    memcpy(entry.key_id, fleet_index_signer(index), FLEET_KEY_ID_SIZE);
    drop_epoch(epochs, &entry);
    return append_epoch(epochs, &entry)
               ? KILN_OK
               : kiln_fail(err, KILN_NO_MEMORY, "no memory for an epoch of the fleet");
}
