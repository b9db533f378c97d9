import type { Document } from './documents.ts';

/** A fenced code block of a Markdown file, with the directive in the HTML comment before it. */
export type Block = {
  document: string;
  /** The line of the opening fence, from 1. */
  line: number;
  language: string;
  text: string;
  /** The directives after `run:`, such as `new machine`. */
  directives: readonly string[];
  /** The text after `not run:`; undefined if the block runs. */
  skipReason: string | undefined;
};

/** Blocks that run one after the other on the same machine. */
export type Session = { blocks: Block[]; directives: readonly string[] };

/**
 * The directives that may precede a block, and how the block then runs. Readers do not see directives.
 *
 *     <!-- run: new machine -->   on a machine without profiles; the session types the API key at the prompt, and the
 *                                 file key.txt also contains the key
 *     <!-- run: package -->       in a directory with the files of the published package
 *     <!-- run: postgres -->      on a machine with psql, where PostgreSQL is empty and runs at db.example:5432; psql connects
 *                                 as superuser
 *     <!-- run: postgres store -->  the same, but there is a store, and PETS_DATA is its URL
 *     <!-- run: debian -->        by test/package/, on a new installation of Debian with systemd and without Node
 *     <!-- run: continue -->      on the machine of the previous block, in the state that the previous block left
 *     <!-- not run: reason -->    not at all
 *
 * A service with the sample animals runs at https://api.example.com/v1. Unless the directive is `new machine`, profile prod
 * is logged in to this service.
 */
export const knownDirectives = ['new machine', 'package', 'postgres', 'postgres store', 'debian', 'continue'];

export function readBlocks({ name, text: markdown }: Document): Block[] {
  const blocks: Block[] = [];
  const lines = markdown.split('\n');
  for (let i = 0; i < lines.length; i++) {
    const [, indent = '', fence, language = ''] = /^( *)(`{3,})(\S*)\s*$/.exec(lines[i] ?? '') ?? [];
    if (fence === undefined) continue;
    const end = lines.findIndex((line, j) => j > i && line.trim() === fence);
    const text = lines.slice(i + 1, end).map((line) => line.slice(indent.length));
    const before = lines.slice(0, i).findLast((line) => line.trim() !== '') ?? '';
    const [, directives, skipReason] = /^ *<!-- (?:run: (.+)|not run: (.+)) -->$/.exec(before) ?? [];
    blocks.push({
      document: name,
      line: i + 1,
      language,
      text: `${text.join('\n')}\n`,
      directives: directives?.split(', ') ?? [],
      skipReason,
    });
    i = end;
  }
  return blocks;
}

export const locationOf = ({ document, line }: Block, lineInBlock = 0): string =>
  `${document}:${line + lineInBlock}`;

/** Joins each block with the blocks that continue it. */
export function groupSessions(blocks: readonly Block[]): Session[] {
  const sessions: Session[] = [];
  for (const block of blocks) {
    if (block.directives.includes('continue')) sessions.at(-1)?.blocks.push(block);
    else sessions.push({ blocks: [block], directives: block.directives });
  }
  return sessions;
}

/** A command after a `$ ` prompt with the output below it; `line` is its line within the block, from 1. */
export type ConsoleStep = { line: number; command: string; output: string[] };

/** The commands of a `console` block. A line that starts with `> ` continues a command. */
export function readConsole(text: string): ConsoleStep[] {
  const steps: ConsoleStep[] = [];
  for (const [i, line] of text.trimEnd().split('\n').entries()) {
    const last = steps.at(-1);
    if (line.startsWith('$ ')) steps.push({ line: i + 1, command: line.slice(2), output: [] });
    else if (line.startsWith('> ') && last?.output.length === 0) last.command += `\n${line.slice(2)}`;
    else if (last === undefined)
      throw new Error(`a console block must start with a prompt, not with: ${line}`);
    else last.output.push(line);
  }
  return steps;
}

/** Replaces the lines of code blocks with empty lines, so that line numbers stay the same. */
export const withoutBlocks = (markdown: string): string =>
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
