"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  for (const place of document.querySelectorAll(".chart[data-spec]")) {
    vegaEmbed(place, read(place.dataset.spec), {
      renderer: "svg",
      tooltip: { theme: "page" },
      actions: false,
    }).catch((error) => { place.textContent = "This chart could not be drawn: " + error.message; });
  }

  // sort a table by a column: numbers by their value, text by its letters; again for the other direction
  const value = (row, i) => row.cells[i].dataset.value ?? row.cells[i].textContent;
  const compare = (a, b, sign) => {
    const [x, y] = [Number(a), Number(b)];
    if (a === "" || b === "") return (a === "") - (b === ""); // what is missing comes last both ways
    return sign * (Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y);
  };
  for (const button of document.querySelectorAll("th button")) {
    button.addEventListener("click", () => {
      const head = button.parentElement;
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = head.closest("table").tBodies[0];
      const sign = down ? -1 : 1;
      const rows = [...body.rows].sort((a, b) => compare(value(a, head.cellIndex), value(b, head.cellIndex), sign));
      body.append(...rows);
    });
  }
})();
