#include "longbow/report/write/page.h"

namespace longbow::reporting {

// The eight colours are Okabe and Ito's, with yellow and black exchanged for an olive and a violet
// that carry text, darkened for paper and lightened for the dark page.
const char* page_style() {
  return R"(
:root { color-scheme: light dark;
  --paper: #fff; --ink: #1b1f24; --soft: #667078; --rule: #e6e8ea; --card: #f6f7f8; --bad: #b3261e; --warn: #8a5300; --mark: #eef3f8;
  --c0: #0072b2; --c1: #c75300; --c2: #00805d; --c3: #b2508a; --c4: #a87400; --c5: #2590c7; --c6: #6b54b8; --c7: #6f7a1f; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #14171a; --ink: #e8eaec; --soft: #98a2ab; --rule: #2a2f34; --card: #1c2024; --bad: #ff8a80; --warn: #f0b357; --mark: #1f2a35;
  --c0: #5aaee6; --c1: #f28c4b; --c2: #3fc39c; --c3: #e08fbe; --c4: #e0ac3c; --c5: #8fd0f5; --c6: #ab98ee; --c7: #b9c45c; } }
@media print { :root { --paper: #fff; --ink: #000; --soft: #555; --rule: #ddd; --card: #f6f7f8; --bad: #b3261e; --warn: #8a5300; --mark: #eee;
  --c0: #0072b2; --c1: #c75300; --c2: #00805d; --c3: #b2508a; --c4: #a87400; --c5: #2590c7; --c6: #6b54b8; --c7: #6f7a1f; }
  body { padding: 0; font-size: 11px } figure, table, .card { break-inside: avoid } h2, h3 { break-after: avoid }
  details:not([open]) { display: none } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 1120px; padding: 48px 32px 80px; background: var(--paper); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif }
h1 { margin: 0 0 4px; font-size: 30px; font-weight: 650; letter-spacing: -.02em }
.byline { margin: 0; max-width: none; color: var(--soft) } .byline span { display: inline-block }
h2 { margin: 56px 0 4px; font-size: 21px; font-weight: 620; letter-spacing: -.01em }
h3 { margin: 32px 0 4px; font-size: 16px; font-weight: 600 }
p { margin: 0 0 14px; max-width: 74ch } .soft { color: var(--soft) }
.card { display: grid; grid-template-columns: repeat(auto-fill, minmax(240px, 1fr)); gap: 14px 28px; margin: 24px 0 0;
  padding: 18px 22px; background: var(--card); border-radius: 10px }
.card div { min-width: 0 } .card .wide { grid-column: 1 / -1 }
dt { color: var(--soft); font-size: 12px } dd { margin: 0; overflow-wrap: anywhere }
.card .wide dd, pre { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
pre { margin: 12px 0; padding: 16px 20px; overflow-x: auto; background: var(--card); border-radius: 10px }
details { margin: 16px 0 } summary { cursor: pointer; color: var(--soft) }
.scroll { overflow-x: auto; margin: 12px 0 8px }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px }
th, td { padding: 7px 14px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--rule) }
th { color: var(--soft); font-weight: 550; font-size: 12.5px; vertical-align: bottom; white-space: normal; line-height: 1.3; border-bottom-color: var(--soft) }
th.name, td.name { text-align: left } th:first-child, td:first-child { padding-left: 2px }
td.reason { white-space: normal; min-width: 280px; overflow-wrap: anywhere }
tbody tr:hover { background: var(--mark) }
td.best { font-weight: 680 } td.muted { color: var(--soft) }
.state { display: inline-block; padding: 0 7px; border: 1px solid; border-radius: 5px; font-size: 12.5px; font-weight: 600; white-space: nowrap }
.pending { color: var(--soft); border-style: dotted; font-style: italic; font-weight: 500 } .pending::before { content: "… " }
.refused { color: var(--soft); border-style: dashed; font-weight: 500 } .refused::before { content: "⊘ " }
.failed { color: var(--bad) } .failed::before { content: "✕ " }
.oom { color: var(--warn); border: 1px solid; border-left-width: 5px } .oom::before { content: "▲ " }
.states { display: flex; flex-wrap: wrap; gap: 6px 24px; max-width: none; color: var(--soft); font-size: 13px }
th[aria-sort] { cursor: pointer } th[aria-sort]:hover { color: var(--ink) }
th[aria-sort=ascending]::after { content: " ↑" } th[aria-sort=descending]::after { content: " ↓" }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 480px), 1fr)); gap: 20px 36px; margin: 16px 0 }
figure { margin: 0 } figure.large { max-width: 860px; margin: 20px 0 } figcaption { margin: 0 0 6px; font-size: 13.5px; font-weight: 600 }
figcaption span { color: var(--soft); font-weight: 400 }
svg { display: block; width: 100%; height: auto; overflow: visible; font: 12.5px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif }
svg .rule { stroke: var(--rule) } svg .axis { stroke: var(--soft) }
svg .tick, svg .axis-label { fill: var(--soft) } svg .halo { stroke: var(--paper); stroke-width: 3px; paint-order: stroke }
svg.narrow { display: none } figure.small svg.wide { max-width: 620px }
svg .label { font-weight: 500; stroke: var(--paper); stroke-width: 3px; paint-order: stroke; stroke-linejoin: round }
svg .strong { font-weight: 700 }
svg .line { fill: none; stroke-width: 1.9; stroke-linejoin: round; stroke-linecap: round }
svg .bold { stroke-width: 3.6 } svg .faint { stroke-width: 1.1; opacity: .5 } svg .key { stroke: var(--soft) }
svg .band { opacity: .14 } svg .leader { fill: none; opacity: .45 }
svg .drop { stroke-dasharray: 2 4; opacity: .6 } svg .ring { fill: var(--paper); stroke-width: 2.2 }
svg .bubble { fill: var(--colour); fill-opacity: .28; stroke: var(--colour); stroke-width: 1.6 }
svg .hollow { fill: none } svg .hollow-dot { fill: var(--paper); stroke-width: 1.8 } svg .bar { fill: none; stroke-width: 1.4 } svg .level { stroke: var(--soft); stroke-dasharray: 5 4 }
footer { margin-top: 64px; color: var(--soft); font-size: 13px }
@media screen and (max-width: 720px) {
  body { padding: 24px 16px 56px } h1 { font-size: 25px; overflow-wrap: anywhere } h2 { margin-top: 40px }
  svg.wide { display: none } svg.narrow { display: block; max-width: 480px }
  .card { grid-template-columns: repeat(auto-fill, minmax(140px, 1fr)); gap: 10px 20px; padding: 14px 16px }
  th, td { padding: 7px 10px }
  th:first-child, td:first-child { position: sticky; left: 0; z-index: 1; max-width: 40vw; white-space: normal;
    overflow-wrap: break-word; background: var(--paper); box-shadow: 1px 0 var(--rule) }
  tbody tr:hover td:first-child { background: var(--mark) }
  .reasons thead { display: none } .reasons, .reasons tbody, .reasons tr { display: block }
  .reasons tr { padding: 8px 0; border-bottom: 1px solid var(--rule) }
  .reasons td { display: inline-block; padding: 1px 12px 1px 0; border: 0 }
  .reasons td:first-child { position: static; max-width: none; box-shadow: none; font-weight: 600 }
  .reasons td[data-name=seeds]::before { content: "seeds "; color: var(--soft) }
  .reasons td[data-name=lengths]::before { content: "N = "; color: var(--soft) }
  .reasons td.reason { display: block; min-width: 0; color: var(--soft) } }
)";
}

const char* page_script() {
  return R"(
for (const table of document.querySelectorAll("table.sortable")) {
  const key = (row, i) => row.cells[i].dataset.value ?? "";
  table.querySelectorAll("th").forEach((th, i) => {
    th.setAttribute("aria-sort", "none");
    th.tabIndex = 0;
    th.title = "sort";
    const sort = () => {
      const down = th.getAttribute("aria-sort") !== "descending";
      table.querySelectorAll("th").forEach(other => other.setAttribute("aria-sort", "none"));
      th.setAttribute("aria-sort", down ? "descending" : "ascending");
      const order = (a, b) => {
        const x = key(a, i), y = key(b, i);
        if (x === "" || y === "") return (x === "") - (y === "");
        const by = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
        return down ? -by : by;
      };
      table.tBodies[0].append(...[...table.tBodies[0].rows].sort(order));
    };
    th.addEventListener("click", sort);
    th.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
  });
}
)";
}

}  // namespace longbow::reporting
