"use strict";
// What the tests ask of a page in the browser: each function gives plain data, and the tests judge it.
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const box = (element) => {
  const { left, right, top, bottom, width, height } = element.getBoundingClientRect();
  return { left, right, top, bottom, width, height };
};
const seen = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
const clear = (colour) => colour === "none" || /, 0\)$/.test(colour);

// whether every chart has a drawing, or says why it has none
function drawn() {
  return document.readyState === "complete"
    && all(".chart[data-spec]").every((chart) => chart.querySelector("svg") || chart.textContent);
}

// of one chart: fill and stroke of those of its shapes that cover some area or length
function colours(chart, selector) {
  const found = new Set();
  for (const mark of all(selector, chart)) {
    const { width, height } = mark.getBBox();
    if (width + height === 0) continue;
    const { fill, stroke } = getComputedStyle(mark);
    for (const colour of [fill, stroke]) if (!clear(colour)) found.add(colour);
  }
  return [...found];
}

function charts() {
  return all(".chart[data-spec]").map((chart) => {
    const svg = chart.querySelector("svg");
    const label = chart.getAttribute("aria-label");
    if (!svg) return { name: chart.dataset.spec, label, text: chart.textContent, svg: null };
    return {
      name: chart.dataset.spec, label, text: chart.textContent, svg: box(svg), place: box(chart),
      marks: colours(chart, ".role-mark path, .role-mark rect, .role-mark line"),
      legend: colours(chart, ".role-legend-symbol path"),
      labels: [...new Set(all(".role-axis-label text", svg).map((text) => getComputedStyle(text).fill))],
    };
  });
}

// words of charts that stick out of the drawing, lie on the plot or on one another
function crowded() {
  const over = (a, b, slack) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > slack && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2 * slack;
  const faults = [];
  for (const chart of all(".chart[data-spec]")) {
    const svg = box(chart.querySelector("svg"));
    const plot = (path) => !path.closest('[class*="role-legend"], [class*="role-axis"]') && !path.parentElement.querySelector(".role-scope");
    const frames = all("path.background", chart).filter(plot).map(box);
    const words = all(".role-axis-label text, .role-axis-title text, .role-legend-label text", chart)
      .filter((text) => text.textContent && seen(text)).map((text) => [text.textContent, box(text)]);
    const say = (what) => faults.push(`${chart.dataset.spec}: ${what}`);
    words.forEach(([word, at], i) => {
      if (at.left < svg.left - 1 || at.right > svg.right + 1 || at.top < svg.top - 1 || at.bottom > svg.bottom + 1) say(`${word} is cut off`);
      if (frames.some((frame) => frame.width && over(at, frame, 1.5))) say(`${word} lies on the plot`);
      for (const [other, there] of words.slice(i + 1)) if (over(at, there, 1.5)) say(`${word} lies on ${other}`);
    });
  }
  return faults;
}

function unfold() {
  for (const details of all("details")) details.open = true;
}

// each column of each table after a click on its head, and after another
function sorted() {
  unfold();
  const values = (table, i) => all("tbody tr", table).map((row) => row.cells[i].dataset.value ?? row.cells[i].textContent);
  const clicked = (table, head) => {
    head.querySelector("button").click();
    const marked = all("[aria-sort]", table);
    return { values: values(table, head.cellIndex), says: marked.map((other) => other === head ? other.getAttribute("aria-sort") : "other") };
  };
  return all("main table").flatMap((table) => all("th", table).map((head) => ({
    table: table.id, column: head.textContent, number: head.classList.contains("number"),
    before: values(table, head.cellIndex), up: clicked(table, head), down: clicked(table, head),
  })));
}

// colour of text, what lies behind it, and a text that has them: a line for each pair of colours
function inks() {
  unfold();
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!clear(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const cells = new Map(); // of each drawing its filled shapes, by where they are
  const under = (element) => {
    const svg = element.closest("svg"), at = box(element);
    const [x, y] = [(at.left + at.right) / 2, (at.top + at.bottom) / 2];
    if (!cells.has(svg)) {
      const shapes = all(".mark-rect path", svg).filter((shape) => !clear(getComputedStyle(shape).fill) && Number(getComputedStyle(shape).opacity) > 0.9);
      cells.set(svg, shapes.map((shape) => [box(shape), getComputedStyle(shape).fill]));
    }
    return cells.get(svg).findLast(([there]) => there.left <= x && x <= there.right && there.top <= y && y <= there.bottom)?.[1];
  };
  const found = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || element.closest("script, style") || !seen(element)) continue;
    const style = getComputedStyle(element);
    const ink = element instanceof SVGElement ? style.fill : style.color;
    const back = (element.closest(".role-mark") && under(element)) || behind(element);
    found.set(`${ink} on ${back}`, [ink, back, text.slice(0, 40)]);
  }
  return [...found.values()];
}

function page() {
  const { backgroundColor, color } = getComputedStyle(document.body);
  const { scrollWidth, scrollHeight } = document.documentElement;
  return { background: backgroundColor, ink: color, width: scrollWidth, height: scrollHeight, screen: innerWidth };
}

// tables against the box that they scroll in; how far it slides of 50 pixels, and where the head is then
function tables() {
  unfold();
  return all("main table").map((table) => {
    const scroll = table.parentElement;
    scroll.scrollTop = 50;
    const slid = scroll.scrollTop;
    const head = box(table.tHead.querySelector("th")).top - box(scroll).top;
    scroll.scrollTop = 0;
    return {
      name: table.id, rows: table.tBodies[0].rows.length, table: box(table), box: box(scroll), slid, head,
      scrolls: getComputedStyle(scroll).overflowX, caption: table.caption.textContent,
    };
  });
}

function focusHead() {
  document.querySelector("main th button").focus();
}

function firstHead() {
  return document.querySelector("main th").getAttribute("aria-sort");
}
