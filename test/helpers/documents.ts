import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export const repository = join(import.meta.dirname, '..', '..');

/** A Markdown file; `name` is its path from the root of the repository. */
export type Document = { name: string; text: string };

export const readDocument = (name: string): Document => ({
  name,
  text: readFileSync(join(repository, name), 'utf8'),
});

/** The documents whose command lines are run. */
export const documents: readonly Document[] = [
  'README.md',
  'CONTRIBUTING.md',
  ...readdirSync(join(repository, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
].map(readDocument);

/** A table row; `at` is its location, such as `docs/serve.md:12`. */
export type TableRow = { at: string; cells: string[] };

/** The rows of all tables between a heading and the next one, without the header rows. */
export function tableRows({ name, text }: Document, heading: string): TableRow[] {
  const lines = text.split('\n');
  const start = lines.findIndex((line) => /^#+ /.test(line) && line.replace(/^#+ /, '') === heading);
  if (start === -1) throw new Error(`${name} has no heading "${heading}"`);
  const rows: TableRow[] = [];
  for (let i = start + 1; i < lines.length && !/^#+ /.test(lines[i] ?? ''); i++) {
    const line = lines[i] ?? '';
    if (/^\|[-:|\s]+\|$/.test(line)) rows.pop();
    else if (line.startsWith('|')) rows.push({ at: `${name}:${i + 1}`, cells: cellsOf(line) });
  }
  return rows;
}

const cellsOf = (line: string): string[] =>
  line
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll('\\|', '|'));
