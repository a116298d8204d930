// Elements without markup: whatever comes from outside becomes a text node or an attribute, never HTML.

const SVG = "http://www.w3.org/2000/svg";
const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";

/** An HTML element. `props` are attributes (null and false: left out), `on…` listeners, and `style`, an object. */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** An SVG element. */
export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.entries(value).forEach(([key, text]) => element.style.setProperty(key, text));
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...present(children));
  return element;
}

/** Children without those that are null or false; arrays among them are opened. */
export function present(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** Put these children in place of all that a parent has. */
export function show(parent, ...children) {
  parent.replaceChildren(...present(children));
}

/** Put a fresh element in place of one that shows the same thing at an earlier time. Returns the one that stands there.
    What has not changed stays as it is; opened details stay open, and the focus stays where it was. */
export function swap(old, fresh) {
  const opened = [...old.querySelectorAll("details")].map((details) => details.open);
  fresh.querySelectorAll("details").forEach((details, index) => (details.open = opened[index] ?? details.open));
  if (old.isEqualNode(fresh)) return old;
  const place = [...old.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  old.replaceWith(fresh);
  if (place >= 0) fresh.querySelectorAll(FOCUSABLE)[place]?.focus({ preventScroll: true });
  return fresh;
}

/** Keep a parent's children in step with a list: one child for each item, known by its key, swapped when it changes.
    `known` is a Map that belongs to the parent; `render` may return the child that is there. */
export function keep(parent, known, items, keyOf, render) {
  const keys = new Set(items.map(keyOf));
  for (const [key, element] of known) {
    if (keys.has(key)) continue;
    element.remove();
    known.delete(key);
  }
  let before = parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    const old = known.get(key);
    let element = render(item);
    if (old) {
      if (old === before) before = old.nextSibling;
      if (element !== old) element = swap(old, element);
      if (element.nextSibling !== before) parent.insertBefore(element, before);
    } else {
      parent.insertBefore(element, before);
    }
    known.set(key, element);
  }
}

let made = 0;

/** An id for an element that another one refers to. */
export function newId(name) {
  made += 1;
  return `${name}-${made}`;
}
