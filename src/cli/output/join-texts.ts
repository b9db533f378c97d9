const PART_CHARACTERS = 65_536;

/** Joins short texts to parts of about 64 KiB, because few long writes take less time than many short ones. */
export function* joinTexts(texts: Iterable<string>): Generator<string> {
  let part = '';
  for (const text of texts) {
    part += text;
    if (part.length < PART_CHARACTERS) continue;
    yield part;
    part = '';
  }
  yield part;
}
