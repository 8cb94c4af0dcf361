/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/report_html.h"

#include "cli/output.h"

#include <stdarg.h>
#include <string.h>

/* Longer texts are cut, so that a page with a thousand long names stays readable. */
#define TEXT_MAX 1024

static void put_character(FILE *out, char c)
{
    switch (c) {
    case '&': fputs("&amp;", out); break;
    case '<': fputs("&lt;", out); break;
    case '>': fputs("&gt;", out); break;
    case '"': fputs("&quot;", out); break;
    case '\'': fputs("&#39;", out); break;
    default: fputc(c, out);
    }
}

void html_text(FILE *out, const char *text)
{
    char copy[TEXT_MAX];
    snprintf(copy, sizeof(copy), "%s", text);
    output_clean(copy, false);
    for (const char *c = copy; *c; c++)
        put_character(out, *c);
    if (strlen(text) >= sizeof(copy))
        fputs("&hellip;", out);
}

void html_element(FILE *out, const char *tag, const char *class, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    fprintf(out, *class ? "<%s class=\"%s\">" : "<%s>", tag, class);
    html_text(out, text);
    fprintf(out, "</%s>", tag);
}

void html_begin_section(FILE *out, const char *title, const char *explanation)
{
    fputs("<section>", out);
    html_element(out, "h2", "", "%s", title);
    if (*explanation)
        html_element(out, "p", "soft", "%s", explanation);
}

void html_share_cell(FILE *out, double part, double whole)
{
    double percent = whole > 0 && part > 0 ? 100 * part / whole : 0;
    if (percent > 0)
        fprintf(out, "<td class=\"share\"><i style=\"width:%.1f%%\"></i></td>",
                percent < 100 ? percent : 100);
    else
        fputs("<td class=\"share\"></td>", out);
}
