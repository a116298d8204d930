// What a machine can see of a page that looks wrong: text that is cut, parts that overlap, a page wider than its window.
// Evaluates to a list of complaints.
() => {
  const found = [];
  const shown = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const clipped = [...document.body.querySelectorAll("*")].filter((element) => getComputedStyle(element).clipPath !== "none");
  // What is there for screen readers alone, and the inside of drawings.
  const unseen = new Set([...clipped, ...document.querySelectorAll("svg")].flatMap((element) => [element, ...element.querySelectorAll("*")]));
  const name = (element) => {
    const kind = element.className && typeof element.className === "string" ? `.${element.className.trim().replaceAll(/\s+/g, ".")}` : "";
    return `<${element.localName}${kind}> "${element.textContent.trim().slice(0, 40)}"`;
  };
  const box = (element) => element.getBoundingClientRect();
  const hasSize = ({ width, height }) => width > 0 && height > 0;

  const page = document.documentElement;
  if (page.scrollWidth > page.clientWidth) found.push(`the page is ${page.scrollWidth - page.clientWidth} px wider than its window`);

  const elements = [...document.body.querySelectorAll("*")].filter((element) => !unseen.has(element) && shown(element));
  const all = new Set(elements);
  for (const element of elements) {
    const style = getComputedStyle(element);
    // An ellipsis may cut what a tooltip tells in full; what scrolls can be scrolled to, as fields can.
    const isTold = style.textOverflow === "ellipsis" && (element.title || element.closest("[title]"));
    const scrolls = /auto|scroll/.test(style.overflowX + style.overflowY);
    if (!isTold && !scrolls && style.display !== "inline" && !element.matches("select, input")) {
      if (element.scrollWidth > element.clientWidth + 1 && element.clientWidth) found.push(`cut or overflowing by ${element.scrollWidth - element.clientWidth} px: ${name(element)}`);
      if (style.overflowY === "hidden" && element.scrollHeight > element.clientHeight + 1) found.push(`cut below: ${name(element)}`);
    }
    const { left, right } = box(element);
    if (hasSize(box(element)) && !element.closest("pre") && (left < -1 || right > page.clientWidth + 1)) found.push(`outside of the window: ${name(element)}`);
    // Where one can point at it, it is large enough to (24 by 24 pixels, unless it stands in a line of text).
    const target = element.matches("button, select, input, summary, a.button, .ways a, .tabs a");
    if (target && (box(element).height < 23.5 || box(element).width < 23.5) && !element.matches("[type='checkbox'], [type='radio']")) {
      found.push(`a small target, ${Math.round(box(element).width)} by ${Math.round(box(element).height)}: ${name(element)}`);
    }
  }

  for (const parent of elements) {
    const children = [...parent.children].filter((child) => all.has(child) && !/absolute|fixed|sticky/.test(getComputedStyle(child).position) && getComputedStyle(child).display !== "inline");
    for (const [index, one] of children.entries()) {
      for (const other of children.slice(index + 1, index + 6)) {
        const [a, b] = [box(one), box(other)];
        const overlap = Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
        if (overlap && hasSize(a) && hasSize(b)) found.push(`${name(one)} overlaps ${name(other)}`);
      }
    }
  }
  return found;
}
