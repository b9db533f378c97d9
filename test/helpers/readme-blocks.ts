/** A fenced block of a Markdown file, and what the HTML comment right before it says of it. */
export type Block = {
  /** As `README.md:12`. */
  at: string;
  language: string;
  text: string;
  /** The words behind `run:`; none where there is no such comment. */
  marks: readonly string[];
  /** The words behind `not run:`. */
  reason: string | undefined;
};

/** Blocks that are run on one machine, one after the other. */
export type Session = { blocks: Block[]; marks: readonly string[] };

/**
 * What may stand before a block, invisible to readers:
 *
 *     <!-- run: fresh -->     on a machine that nobody has used pets on, with a service at https://api.example.com/v1
 *                             whose key is typed where it is asked for, and stands in key.txt
 *     <!-- run: package -->   in the directory of the package
 *     <!-- run: goes on -->   on the machine of the block before, where it left it
 *     <!-- not run: why -->   not at all
 *
 * Without one the machine is logged in (profile prod) to a service with the sample animals, on which nobody else works.
 */
export const knownMarks = ['fresh', 'package', 'goes on'];

export function readBlocks(name: string, markdown: string): Block[] {
  const blocks: Block[] = [];
  const lines = markdown.split('\n');
  for (let i = 0; i < lines.length; i++) {
    const [, indent = '', fence, language = ''] = /^( *)(`{3,})(\S*)\s*$/.exec(lines[i] ?? '') ?? [];
    if (fence === undefined) continue;
    const end = lines.findIndex((line, j) => j > i && line.trim() === fence);
    const text = lines.slice(i + 1, end).map((line) => line.slice(indent.length));
    const before = lines.slice(0, i).findLast((line) => line.trim() !== '') ?? '';
    const [, runs, reason] = /^ *<!-- (?:run: (.+)|not run: (.+)) -->$/.exec(before) ?? [];
    blocks.push({
      at: `${name}:${i + 1}`,
      language,
      text: `${text.join('\n')}\n`,
      marks: runs?.split(', ') ?? [],
      reason,
    });
    i = end;
  }
  return blocks;
}

/** Puts each block with those that it goes on from. */
export function sessionsOf(blocks: readonly Block[]): Session[] {
  const sessions: Session[] = [];
  for (const block of blocks) {
    if (block.marks.includes('goes on')) sessions.at(-1)?.blocks.push(block);
    else sessions.push({ blocks: [block], marks: block.marks });
  }
  return sessions;
}

/** A command as it is typed behind a prompt, and what is shown below it. */
export type Typed = { command: string; output: string[] };

/** The commands of a `console` block: behind `$ `, and `> ` where one goes on. */
export function readTyped(text: string): Typed[] {
  const typed: Typed[] = [];
  for (const line of text.trimEnd().split('\n')) {
    const last = typed.at(-1);
    if (line.startsWith('$ ')) typed.push({ command: line.slice(2), output: [] });
    else if (line.startsWith('> ') && last?.output.length === 0) last.command += `\n${line.slice(2)}`;
    else if (last === undefined) throw new Error(`a console block begins with a prompt, not with: ${line}`);
    else last.output.push(line);
  }
  return typed;
}

/** The code spans of the text outside blocks that are commands of pets. */
export function readSpans(markdown: string): string[] {
  const prose = markdown.replace(/^( *)(`{3,})[\s\S]*?^ *\2$/gm, '');
  const spans = [...prose.matchAll(/`(pets [^`]+)`/g)].map(([, span]) => span as string);
  return [...new Set(spans.map((span) => span.replace(/\s+/g, ' ').replaceAll('\\|', '|')))];
}

/** Whether somebody has to fill something in: `<name>`, `[file]`, `a|b`, `…`, `--plan P`. */
export const hasPlaceholder = (span: string): boolean =>
  /<\w+>|[[\]…]|\w\||\.\.\.|(^|[\s=])[A-Z][A-Z_]*(\s|$)/.test(span);
