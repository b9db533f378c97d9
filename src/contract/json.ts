import { LosslessNumber, parse, stringify } from 'lossless-json';

// Numbers whose text the native parser would not keep: sixteen digits and more, fractions, exponents, minus zero.
const INEXACT = /\d(?:\d{15}|[.eE])|-0(?!\d)/;

/** Deeper documents are refused before they are parsed: the exact parser recurses. */
const MAX_DEPTH = 500;

/**
 * Parses JSON without changing a digit: an integer becomes a `number` where that is exact and a `bigint` above,
 * any other number a `LosslessNumber` that prints as it came. As with JSON.parse the last of two equal names wins.
 *
 * @throws SyntaxError for text that is not JSON, or is nested deeper than `maxDepth`
 */
export function parseJson(text: string, maxDepth = MAX_DEPTH): unknown {
  if (isDeeperThan(text, maxDepth)) throw new SyntaxError(`nested deeper than ${maxDepth} levels`);
  if (!INEXACT.test(text)) return JSON.parse(text);
  return parse(text, undefined, { parseNumber, onDuplicateKey: ({ newValue }) => newValue });
}

/** What the text holds; undefined where it is not JSON. */
export function tryParseJson(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** Writes JSON with every digit of what `parseJson` read; `indent` spaces a level, or all in one line. */
export function stringifyJson(value: unknown, { indent }: { indent?: number | undefined } = {}): string {
  return stringify(value, undefined, indent) ?? 'null';
}

function parseNumber(text: string): number | bigint | LosslessNumber {
  if (!/^-?\d+$/.test(text) || text === '-0') return new LosslessNumber(text);
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : BigInt(text);
}

function isDeeperThan(text: string, maxDepth: number): boolean {
  return opensMoreThan(text, maxDepth) && isNestedDeeperThan(text, maxDepth);
}

/** Whether so many brackets open at all, in strings too: most texts have fewer, and that is found out at once. */
function opensMoreThan(text: string, most: number): boolean {
  let count = 0;
  for (const bracket of ['{', '[']) {
    for (let i = text.indexOf(bracket); i !== -1; i = text.indexOf(bracket, i + 1)) {
      if (++count > most) return true;
    }
  }
  return false;
}

function isNestedDeeperThan(text: string, maxDepth: number): boolean {
  let depth = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const char = text.charCodeAt(i);
    if (inString) {
      if (char === 0x5c) i++;
      else if (char === 0x22) inString = false;
    } else if (char === 0x22) inString = true;
    else if (char === 0x7b || char === 0x5b) {
      if (++depth > maxDepth) return true;
    } else if (char === 0x7d || char === 0x5d) depth--;
  }
  return false;
}
