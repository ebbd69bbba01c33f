"""Draws Vega-Lite specifications with vl-convert: JSON lines on standard input, each with `spec`, `to`, `format`, `points`."""

import json
import os
import sys

try:
    import vl_convert
except ImportError as error:
    sys.exit(print(f"python3 has no vl-convert-python ({error})", file=sys.stderr) or 3)


def draw(spec, form):
    if form == "svg":
        # Pixels of the specification are points of the paper.
        svg = vl_convert.vegalite_to_svg(spec)
        head, rest = svg.split(">", 1)
        for name in ("width", "height"):
            before, after = head.split(f' {name}="', 1)
            value, after = after.split('"', 1)
            head = f'{before} {name}="{value}pt"{after}'
        return f"{head}>{rest}".encode()
    if form == "pdf":
        return vl_convert.vegalite_to_pdf(spec)
    return vl_convert.vegalite_to_png(spec, ppi=300)


for line in sys.stdin:
    drawing = json.loads(line)
    path = drawing["to"]
    part = f"{path}.part"
    try:
        with open(part, "wb") as file:
            file.write(draw(drawing["spec"], drawing["format"]))
        os.replace(part, path)
    except Exception as error:
        if os.path.exists(part):
            os.remove(part)
        sys.exit(print(f"{path}: {error}", file=sys.stderr) or 1)
