"""The style sheet and the script of every page. They stand in the page itself; nothing is fetched."""

STYLE = """
:root {
  --paper: #f7f7f5; --surface: #ffffff; --ink: #1d2329; --muted: #5d6873; --line: #dde1e4; --grid: #e9ecee;
  --alarm: #a83232; --accent: #0067a5;
  --c1: #0072b2; --c2: #d55e00; --c3: #00855f; --c4: #b0578d; --c5: #c98a00; --c6: #4aa3d8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14181c; --surface: #1b2126; --ink: #e5e9ec; --muted: #9ba7b1; --line: #303940; --grid: #293138;
    --alarm: #ff9b8f; --accent: #6cb6ec;
    --c1: #57aeea; --c2: #f28b4b; --c3: #35c19a; --c4: #e29fc6; --c5: #ecc04f; --c6: #9bd3f5;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 1.5rem clamp(0.8rem, 3vw, 2rem) 4rem; }
h1 { font-size: clamp(1.45rem, 4.5vw, 2rem); line-height: 1.2; margin: 0.5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 0 0 0.6rem; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 0 0 0.3rem; overflow-wrap: anywhere; }
p { margin: 0 0 0.8rem; max-width: 46rem; overflow-wrap: anywhere; }
.lead { font-size: 1.08rem; color: var(--muted); margin-bottom: 1.4rem; }
section { background: var(--surface); border: 1px solid var(--line); border-radius: 10px; margin: 0 0 1.1rem;
  padding: 1.1rem clamp(0.8rem, 2vw, 1.4rem); }
figure { margin: 0 0 0.9rem; min-width: 0; }
figcaption { color: var(--muted); font-size: 0.9rem; line-height: 1.45; margin-top: 0.35rem; max-width: 46rem;
  overflow-wrap: anywhere; }
.plot { width: 100%; }
.beside { display: grid; gap: 0.6rem 2rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); }
.scroll { overflow-x: auto; background:  /* a shadow at the end where there is more to see */
    linear-gradient(to left, var(--surface) 40%, transparent) right / 3rem 100% no-repeat local,
    linear-gradient(to left, var(--line), transparent) right / 1rem 100% no-repeat scroll; }
.table { max-width: max-content; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.95rem; }
th, td { padding: 0.34rem 0.8rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { color: var(--muted); font-weight: 500; font-size: 0.88rem; vertical-align: bottom; }
.name { text-align: left; }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--surface); padding-left: 0; }
td.name { max-width: 16rem; overflow: hidden; text-overflow: ellipsis; }
.strong { font-weight: 700; color: var(--accent); }
tr.quiet td { color: var(--muted); }
tbody tr:last-child td { border-bottom: 0; }
.facts { display: grid; gap: 0.7rem 1.5rem; margin: 0 0 0.9rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 11.5rem), 1fr)); }
dt { color: var(--muted); font-size: 0.85rem; }
dd { margin: 0; overflow-wrap: anywhere; }
ul { margin: 0 0 0.9rem; padding-left: 1.2rem; max-width: 46rem; overflow-wrap: anywhere; }
.alarm { color: var(--alarm); font-weight: 600; }
details { margin: 0 0 0.5rem; }
summary { cursor: pointer; }
pre { margin: 0.5rem 0; padding: 0.7rem 0.9rem; border: 1px solid var(--line); border-radius: 6px; font-size: 0.85rem; }
@media (max-width: 30rem) {
  .facts { grid-template-columns: 1fr 1fr; }
  th, td { padding: 0.3rem 0.55rem; }
  td.name { max-width: 10rem; }
}
"""

SCRIPT = """
(() => {
  const paint = (value, key, css) => {
    if (typeof value === "string") {
      const wanted = /color(scale)?$/.test(key) && /^(var|faint)\\((--\\w+)\\)$/.exec(value);
      return wanted ? css.getPropertyValue(wanted[2]).trim() + (wanted[1] === "faint" ? "2e" : "") : value;
    }
    if (Array.isArray(value)) return value.map(entry => paint(entry, key, css));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, paint(entry, name, css)]));
  };
  const touch = matchMedia("(pointer: coarse)").matches;
  const draw = box => {
    const {data, layout} = paint(JSON.parse(box.previousElementSibling.textContent), "",
      getComputedStyle(document.documentElement));
    if (layout.meta && layout.meta.square) layout.height = Math.min(layout.height, box.clientWidth + 90);
    box.style.height = layout.height + "px";
    layout.dragmode = touch ? false : "zoom";  // a finger scrolls the page
    Plotly.react(box, data, layout, {responsive: true, displayModeBar: false});
  };
  const all = () => document.querySelectorAll(".plot").forEach(draw);
  all();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
})();
"""
