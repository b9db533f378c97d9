import type { ChalkInstance } from 'chalk';
import { stringifyJson } from '../../contract/json.ts';
import type { Context, OutputStream } from '../context.ts';
import { keyMask } from '../profiles/profile.ts';
import { type ColourMode, coloursFor } from './colour.ts';
import { visible, visibleJson } from './visible.ts';
import { cutToWidth, displayWidth } from './width.ts';
import { wrapText } from './wrap.ts';

/** What a command says: data to stdout, everything else to stderr. */
export type Console = {
  /** Whether stdout carries one JSON document and stderr one JSON object a line. */
  readonly json: boolean;
  readonly isTerminal: boolean;
  /** The width of stdout in columns. */
  readonly columns: number;
  readonly colours: ChalkInstance;
  readonly errorColours: ChalkInstance;
  /** Writes data as it is. @throws OutputError */
  write(text: string): Promise<void>;
  /** Writes one JSON document: indented for a person, in one line for a program. */
  writeJson(value: unknown): Promise<void>;
  /** Tells the person something; what came from a server or a file is made visible. */
  notice(text: string): void;
  /**
   * An event on stderr: for a program the object, for a person the text, whose lines are wrapped to the terminal with so
   * many columns of indentation. Without an indentation they are left as they are.
   */
  event(event: Record<string, unknown>, text: string, indent?: number): void;
  /** Waits until stderr has taken what was said, where a slow reader has let much of it pile up. */
  settled(): Promise<void>;
  /** From now on the key is masked in all that goes to stderr, wherever a service has put it. */
  hide(key: string): void;
  /** Whether `status` shows anything: only a terminal is drawn on again and again. */
  readonly hasStatus: boolean;
  /** Shows a line below everything else, in place of the one before; undefined takes it away. */
  status(line: StatusLine | undefined): void;
};

/** The same in ever fewer words: the first that fits the terminal is shown. */
export type StatusLine = readonly [string, ...string[]];

/** stdout could not be written; EPIPE where the reader has gone. */
export class OutputError extends Error {
  readonly code: string | undefined;

  constructor(cause: NodeJS.ErrnoException) {
    super(cause.message, { cause });
    this.code = cause.code;
  }
}

const DEFAULT_COLUMNS = 80;
const ERASE_LINE = '\x1b[K';

/** The terminal itself writes ^C behind the line, which must not go on in the next one. */
const ROOM_FOR_ECHO = 3;

/** A line that is longer than the terminal is wide could not be taken away again. */
function statusText(line: StatusLine, width: number): string {
  const texts = line.map(visible);
  return texts.find((text) => displayWidth(text) <= width) ?? cutToWidth(texts.at(-1) ?? '', width);
}

export function createConsole(context: Context, options: { json: boolean; color: ColourMode }): Console {
  const { stdout, stderr, env } = context;
  const errorColours = coloursFor(stderr, env, options.color);
  const isTerminal = stdout.isTTY === true;
  const hasStatus = stderr.isTTY === true && !options.json && env['TERM'] !== 'dumb';
  const errorColumns = () => stderr.columns || DEFAULT_COLUMNS;
  let isStatusShown = false;
  const status: Console['status'] = (line) => {
    if (!hasStatus || (line === undefined && !isStatusShown)) return;
    const shown = line === undefined ? '' : statusText(line, errorColumns() - ROOM_FOR_ECHO);
    stderr.write(`\r${ERASE_LINE}${shown}`);
    isStatusShown = line !== undefined;
  };
  const masks = new Map<string, (text: string) => string>();
  const event: Console['event'] = (value, text, indent) => {
    status(undefined);
    const mask = (shown: string) => [...masks.values()].reduce((masked, each) => each(masked), shown);
    if (options.json) {
      const shown = masks.size === 0 ? value : mapTexts(value, mask);
      stderr.write(`${visibleJson(stringifyJson(shown))}\n`);
      return;
    }
    const masked = mask(text);
    const isWrapped = indent !== undefined && stderr.isTTY === true;
    stderr.write(`${isWrapped ? wrapText(masked, errorColumns(), indent) : masked}\n`);
  };
  const write = (text: string) => {
    status(undefined);
    return writeAll(stdout, text);
  };
  return {
    json: options.json,
    isTerminal,
    // A terminal that does not know its width says 0.
    columns: stdout.columns || DEFAULT_COLUMNS,
    colours: coloursFor(stdout, env, options.color),
    errorColours,
    write,
    writeJson: (value) =>
      write(
        isTerminal ? `${visibleJson(stringifyJson(value, { indent: 2 }))}\n` : `${stringifyJson(value)}\n`,
      ),
    settled: async () => {
      if (stderr.writableNeedDrain) await new Promise((resolve) => stderr.write('', resolve));
    },
    hide: (key) => masks.set(key, keyMask(key)),
    hasStatus,
    status,
    notice: (text) => event({ notice: text }, `${errorColours.yellow('note:')} ${visible(text)}`, 2),
    event,
  };
}

/** The value with each of its texts changed, names too. */
function mapTexts(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value);
  if (Array.isArray(value)) return value.map((each) => mapTexts(each, change));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [change(name), mapTexts(each, change)]),
  );
}

function writeAll(stream: OutputStream, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(text, (error) => (error ? reject(new OutputError(error)) : resolve()));
  });
}
