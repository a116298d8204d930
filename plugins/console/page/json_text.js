// JSON as text: laid out for reading without being decoded, so that every number keeps its digits, and every key its place.

/** The tokens of a text, `[token, index]` each. Strings are not left to the pattern: one of megabytes would be too much for
    the stack that it is matched with. */
function* tokens(text) {
  const pattern = /["{}[\],:]|[^\s{}[\],:"]+/g;
  for (let found; (found = pattern.exec(text)); ) {
    if (found[0] === '"') pattern.lastIndex = stringEnd(text, pattern.lastIndex);
    yield [text.slice(found.index, pattern.lastIndex), found.index];
  }
}

function stringEnd(text, start) {
  let at = start;
  while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at + 1;
}

/** The members of an object: its keys, each with the text of its value. */
export function members(text) {
  const found = {};
  let depth = 0,
    key = null,
    start = 0,
    expectsKey = false;
  for (const [token, index] of tokens(text)) {
    if (depth === 1 && key !== null && (token === "," || token === "}")) {
      found[key] = text.slice(start, index).trim();
      key = null;
    }
    if (token === "{" || token === "[") depth += 1;
    else if (token === "}" || token === "]") depth -= 1;
    if (depth === 1 && (token === "{" || token === ",")) expectsKey = true;
    else if (depth === 1 && expectsKey && token.startsWith('"')) {
      [key, expectsKey, start] = [JSON.parse(token), false, index + token.length];
    } else if (depth === 1 && token === ":" && text.slice(start, index).trim() === "") start = index + 1;
  }
  return found;
}

/** A JSON text with its members and elements on lines of their own, of `most` characters or little more. */
export function pretty(text, most = Infinity) {
  let out = "",
    depth = 0,
    before = null;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const [token] of tokens(text)) {
    if (out.length > most) break;
    const isFirst = before === "{" || before === "[";
    before = token;
    if (token === "}" || token === "]") {
      depth -= 1;
      out += isFirst ? token : line() + token;
      continue;
    }
    if (isFirst) out += line();
    if (token === "{" || token === "[") depth += 1;
    if (token === ",") out += `,${line()}`;
    else out += token === ":" ? ": " : token;
  }
  return out;
}
