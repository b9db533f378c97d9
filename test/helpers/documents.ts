import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

// Reads the documents: their blocks of code, commands, tables and links.

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

/** A fenced block of code. The HTML comment before it is its directive, which readers do not see. */
export type Block = {
  /** The document and the line of the opening fence. */
  at: string;
  document: string;
  /** The document and the last heading before the block. */
  section: string;
  language: string;
  text: string;
  /** The word after `run:`; undefined if there is none. */
  directive: string | undefined;
  /** The reason after `not run:`; undefined if the block runs. */
  skipReason: string | undefined;
};

/**
 * How a block is run. Without a directive, it runs in a directory with the example files and a project with a test, on
 * a machine that is logged in to a service with the sample animals at https://api.example.com/v1. The blocks of a
 * section run one after the other on one machine. If one of them needs PostgreSQL, an empty server runs at
 * db.example:5432, and psql connects as superuser.
 *
 *     <!-- run: package -->        in a directory with the files of the published package
 *     <!-- run: store -->          the store of pets serve exists; with PostgreSQL, PETS_DATA is the URL of this store
 *     <!-- run: service -->        the service at https://shop.example is pets serve with the store of this machine
 *     <!-- run: debian -->         by test/package/, on a new installation of Debian with systemd and without Node
 *     <!-- not run: reason -->     not at all
 */
export const knownDirectives = ['package', 'store', 'service', 'debian'];

export function readBlocks({ name, text: markdown }: Document): Block[] {
  const blocks: Block[] = [];
  const lines = markdown.split('\n');
  for (let i = 0; i < lines.length; i++) {
    const [, indent = '', fence, language = ''] = /^( *)(`{3,})(\S*)\s*$/.exec(lines[i] ?? '') ?? [];
    if (fence === undefined) continue;
    const end = lines.findIndex((line, j) => j > i && line.trim() === fence);
    const before = lines.slice(0, i);
    const comment = before.findLast((line) => line.trim() !== '') ?? '';
    const [, kind, value] = /^ *<!-- (run|not run): (.+) -->$/.exec(comment) ?? [];
    blocks.push({
      at: `${name}:${i + 1}`,
      document: name,
      section: `${name} ${before.findLast((line) => /^#+ /.test(line))}`,
      language,
      text: lines
        .slice(i + 1, end)
        .map((line) => `${line.slice(indent.length)}\n`)
        .join(''),
      directive: kind === 'run' ? value : undefined,
      skipReason: kind === 'not run' ? value : undefined,
    });
    i = end;
  }
  return blocks;
}

/** Replaces the lines of code blocks with empty lines, so that line numbers stay the same. */
const withoutBlocks = (markdown: string): string =>
  markdown.replace(/^( *)(`{3,})[\s\S]*?^ *\2$/gm, (block) => block.replace(/[^\n]/g, ''));

/** A code span such as `pets list`, with the location of its first line. */
export type CommandSpan = { at: string; command: string };

/** The code spans outside of code blocks that are `pets` commands, without repetitions. */
export function readCommandSpans({ name, text }: Document): CommandSpan[] {
  const prose = withoutBlocks(text);
  const spans = new Map<string, CommandSpan>();
  for (const { 1: span = '', index } of prose.matchAll(/`(pets [^`]+)`/g)) {
    const command = span.replace(/\s+/g, ' ').replaceAll('\\|', '|');
    const at = `${name}:${prose.slice(0, index).split('\n').length}`;
    if (!spans.has(command)) spans.set(command, { at, command });
  }
  return [...spans.values()];
}

/** Whether a command contains a placeholder, such as `<name>`, `[file]`, `a|b`, `…` or the P in `--plan P`. */
export const hasPlaceholder = (command: string): boolean =>
  /<[\w|]+>|[[\]…]|\w\||\.\.\.|(^|[\s=])[A-Z][A-Z_]*(\s|$)/.test(command);

/** The targets of all links and images of a Markdown text outside of code. */
export function linksOf(markdown: string): string[] {
  const text = withoutBlocks(markdown).replace(/`[^`]*`/g, '`code`');
  return [...text.matchAll(/\]\(\s*([^)\s]+)[^)]*\)|<(https?:[^>\s]+)>/g)].map(
    ([, target = '', address]) => address ?? target,
  );
}

/** The anchors that GitHub generates for the headings of a Markdown text. */
export function anchorsOf(markdown: string): string[] {
  const anchors: string[] = [];
  for (const [, heading = ''] of withoutBlocks(markdown).matchAll(/^#{1,6} +(.*)$/gm)) {
    const slug = heading
      .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replace(/[^\p{L}\p{M}\p{N}\p{Pc} -]/gu, '')
      .replaceAll(' ', '-');
    const count = anchors.filter((anchor) => anchor.replace(/-\d+$/, '') === slug).length;
    anchors.push(count === 0 ? slug : `${slug}-${count}`);
  }
  return anchors;
}
