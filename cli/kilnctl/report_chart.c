/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/report_chart.h"

#include "cli/kilnctl/report_html.h"
#include "common/base/units.h"

#define WIDTH 1000.0
#define HEIGHT 100.0
#define GAP 0.12
#define THIN 1.0

double chart_round_top(double most)
{
    static const double steps[] = { 1, 2, 4, 10, 20, 40, 60 };
    double unit = most > 3600 ? 3600 : most > 60 ? 60 : 1;
    while (most < unit && unit <= 1)
        unit /= 10;
    while (most > 60 * unit)
        unit *= 10;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        if (most <= steps[i] * unit)
            return steps[i] * unit;
    }
    return most;
}

static void write_layers(const struct chart *c, const struct chart_column *column, FILE *out)
{
    double range = (double)(c->end - c->begin);
    double x = WIDTH * ((double)column->time - (double)c->begin) / range;
    double width = WIDTH * (double)column->span_s / range * (1 - GAP), y = HEIGHT;
    fputs("<g><title>", out);
    html_text(out, column->label);
    fputs("</title>", out);
    for (int i = 0; i < CHART_LAYERS; i++) {
        double height = HEIGHT * column->layers[i] / c->top;
        if (!(height > 0))
            continue;
        height = height < y ? height : y;
        y -= height;
        fprintf(out, "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>",
                c->classes[i], x, y, width > THIN ? width : THIN, height);
    }
    fputs("</g>", out);
}

static void write_legend(const struct chart *c, FILE *out)
{
    fputs("<ul class=\"legend\">", out);
    for (int i = 0; i < CHART_LAYERS && c->words[i]; i++) {
        fprintf(out, "<li><i class=\"%s\"></i>", c->classes[i]);
        html_text(out, c->words[i]);
        fputs("</li>", out);
    }
    fputs("</ul>", out);
}

static void write_times(const struct chart *c, FILE *out)
{
    char text[UNITS_TEXT_MAX];
    fputs("<div class=\"times\">", out);
    for (unsigned i = 0; i < 3; i++)
        html_element(out, "span", "", "%s",
                     units_when(c->begin + i * (c->end - c->begin) / 2, text));
    fputs("</div>", out);
}

void chart_write(const struct chart *c, FILE *out)
{
    fputs("<figure class=\"chart\"><div class=\"scale\">", out);
    html_element(out, "span", "", "%s", c->top_label);
    html_element(out, "span", "", "%s", c->middle_label);
    html_element(out, "span", "", "0");
    fprintf(
        out,
        "</div><svg viewBox=\"0 0 %.0f %.0f\" preserveAspectRatio=\"none\" role=\"img\"><title>",
        WIDTH, HEIGHT);
    html_text(out, c->name);
    fputs("</title>", out);
    for (int i = 0; i <= 2; i++)
        fprintf(out, "<line x1=\"0\" x2=\"%.0f\" y1=\"%.0f\" y2=\"%.0f\"/>", WIDTH, HEIGHT / 2 * i,
                HEIGHT / 2 * i);
    for (size_t i = 0; i < c->count; i++)
        write_layers(c, &c->columns[i], out);
    fputs("</svg>", out);
    write_times(c, out);
    write_legend(c, out);
    fputs("</figure>\n", out);
}
