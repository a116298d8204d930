// JSON as text: laid out for reading without being decoded, so that every number keeps its digits, and every key its place.

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** The members of an object: its keys, each with the text of its value. */
export function members(text) {
  const found = {};
  let depth = 0,
    key = null,
    start = 0,
    expectsKey = false;
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
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

/** A JSON text with its members and elements on lines of their own. */
export function pretty(text) {
  const tokens = text.match(TOKEN) ?? [];
  let out = "",
    depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  tokens.forEach((token, index) => {
    const before = tokens[index - 1];
    if (token === "}" || token === "]") {
      depth -= 1;
      out += before === "{" || before === "[" ? token : line() + token;
      return;
    }
    if (before === "{" || before === "[") out += line();
    if (token === "{" || token === "[") depth += 1;
    if (token === ",") out += `,${line()}`;
    else out += token === ":" ? ": " : token;
  });
  return out;
}
