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

/** The cells of the rows of all tables between a heading and the next one, without the header rows. */
export function tableRows({ name, text }: Document, heading: string): string[][] {
  const section = text.split(/^#+ /m).find((each) => each.startsWith(`${heading}\n`));
  if (section === undefined) throw new Error(`${name} has no heading "${heading}"`);
  const rows = section.split('\n').filter((line) => line.startsWith('|'));
  const isRule = (row = '') => /^\|[-:|\s]+\|$/.test(row);
  return rows.filter((row, i) => !isRule(row) && !isRule(rows[i + 1])).map(cellsOf);
}

const cellsOf = (row: string): string[] =>
  row
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll('\\|', '|'));

/** A fenced block of code. The HTML comment before it, which readers do not see, says how it is run. */
export type Block = {
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

const BLOCK = /(?:^ *<!-- (run|not run): (.+) -->\n)?^( *)(`{3,})(\S*)\n([\s\S]*?)^ *\4$/gm;

export const readBlocks = ({ name, text: markdown }: Document): Block[] =>
  [...markdown.matchAll(BLOCK)].map(
    ({ 1: kind, 2: value, 3: indent, 5: language = '', 6: code = '', index }) => {
      const before = markdown.slice(0, index);
      return {
        at: `${name}:${before.split('\n').length}`,
        document: name,
        section: `${name} ${before.match(/^#+ .*$/gm)?.at(-1)}`,
        language,
        text: code.replace(new RegExp(`^${indent}`, 'gm'), ''),
        directive: kind === 'run' ? value : undefined,
        skipReason: kind === 'not run' ? value : undefined,
      };
    },
  );

const withoutBlocks = (markdown: string): string => markdown.replace(BLOCK, '');

/** The code spans outside of code blocks that are `pets` commands. */
export const readCommandSpans = ({ text }: Document): string[] =>
  Array.from(withoutBlocks(text).matchAll(/`(pets [^`]+)`/g), ([, span = '']) =>
    span.replace(/\s+/g, ' ').replaceAll('\\|', '|'),
  );

/** The targets of all links and images of a Markdown text outside of code. */
export function linksOf(markdown: string): string[] {
  const text = withoutBlocks(markdown).replace(/`[^`]*`/g, '`code`');
  return [...text.matchAll(/\]\(\s*([^)\s]+)[^)]*\)|<(https?:[^>\s]+)>/g)].map(
    ([, target = '', address]) => address ?? target,
  );
}

/** The anchors that GitHub generates for the headings of a Markdown text. */
export function anchorsOf(markdown: string): string[] {
  const slugs = Array.from(withoutBlocks(markdown).matchAll(/^#{1,6} +(.*)$/gm), ([, heading = '']) =>
    heading
      .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replace(/[^\p{L}\p{M}\p{N}\p{Pc} -]/gu, '')
      .replaceAll(' ', '-'),
  );
  return slugs.map((slug, i) => {
    const earlier = slugs.slice(0, i).filter((each) => each === slug).length;
    return earlier === 0 ? slug : `${slug}-${earlier}`;
  });
}
