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

  // sort a table by a column: numbers by their value, text as people count (64x64 before 128x128); again for the other way
  const value = (row, i) => row.cells[i].dataset.value ?? row.cells[i].textContent;
  const text = new Intl.Collator("en", { numeric: true }).compare;
  const number = (a, b) => a - b;
  const compare = (a, b, order, sign) => {
    if (a === "" || b === "") return (a === "") - (b === ""); // what is missing comes last both ways
    return sign * order(a, b);
  };
  for (const button of document.querySelectorAll("th button")) {
    button.addEventListener("click", () => {
      const head = button.parentElement;
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = head.closest("table").tBodies[0];
      const order = head.classList.contains("number") ? number : text;
      const [i, sign] = [head.cellIndex, down ? -1 : 1];
      body.append(...[...body.rows].sort((a, b) => compare(value(a, i), value(b, i), order, sign)));
    });
  }
})();
