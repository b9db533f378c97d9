import { tryParseJson } from '../contract/json.ts';

const TOKEN = /"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g;
const MAX_DEPTH = 100;

/**
 * Puts JSON on several lines. Every number, string and duplicate name stays as it was sent. Returns undefined if the text
 * is not an object or an array in JSON.
 */
export function layOutJson(text: string): string | undefined {
  if (!/^\s*[[{]/.test(text) || tryParseJson(text) === undefined) return undefined;
  const tokens = text.match(TOKEN) ?? [];
  let depth = 0;
  let result = '';
  for (const [i, token] of tokens.entries()) {
    const isEnd = token === '}' || token === ']';
    if (isEnd) depth--;
    const previous = tokens[i - 1] ?? '';
    const isEmpty = isEnd && (previous === '{' || previous === '[');
    if ((isEnd && !isEmpty) || (!isEnd && /^[[{,]$/.test(previous))) {
      result += `\n${'  '.repeat(Math.min(depth, MAX_DEPTH))}`;
    }
    result += token === ':' ? ': ' : token;
    if (token === '{' || token === '[') depth++;
  }
  return result;
}
