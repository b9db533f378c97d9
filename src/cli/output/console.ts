import { Chalk, type ChalkInstance } from 'chalk';
import { stringifyJson } from '../../contract/json.ts';
import { isMissing, isNoSpace } from '../../system/file-system.ts';
import { InterruptedError } from '../../system/interrupted-error.ts';
import { createTimeFormatter } from '../../system/time-text.ts';
import type { Context, OutputStream } from '../core/context.ts';
import { CliError, systemReason } from '../core/errors.ts';
import type { OutputFile } from './output-file.ts';
import { createPasswordRemover, createRedactor } from './redact.ts';
import { sanitizeForTerminal, sanitizeJson } from './sanitize.ts';
import { cutToWidth, widthOf, wrapText } from './text.ts';

/**
 * The formats of the data that commands print. `lines` are rows with tabs and without a header, `excel` is CSV that
 * Excel opens correctly, and `text` is data that is not rows, such as a script or a report.
 */
export type Format = 'table' | 'lines' | 'tsv' | 'csv' | 'excel' | 'ndjson' | 'json' | 'text';

export const colorModes = ['auto', 'always', 'never'] as const;
export type ColorMode = (typeof colorModes)[number];

/** Variants of the same status line, from long to short. The first one that fits the terminal is shown. */
export type StatusVariants = readonly string[];

/** Writing the data to stdout or to the file of `--output` failed. */
export class OutputError extends CliError {
  /** Why, without the name of the output. */
  readonly reason: string;
  /** Whether the reader of the data has closed the pipe. */
  readonly isClosedPipe: boolean;

  constructor(cause: NodeJS.ErrnoException, file?: string) {
    const reason = file !== undefined && isMissing(cause) ? 'its directory was removed' : systemReason(cause);
    super(`cannot write ${file ?? 'the output'}: ${reason}`, {
      code: 'output_error',
      hint: `${isNoSpace(cause) ? 'free some disk space, or ' : ''}write the output somewhere else`,
      cause,
    });
    this.reason = reason;
    this.isClosedPipe = cause.code === 'EPIPE';
  }
}

export const isClosedPipe = (error: unknown): boolean => error instanceof OutputError && error.isClosedPipe;

/** The width of a terminal that does not report one. */
export const DEFAULT_COLUMNS = 80;
const ERASE_LINE = '\x1b[K';

/** Keeps room on the status line for the ^C that the terminal echoes, so that the line does not wrap. */
const ECHO_COLUMNS = 3;

/** Fits a status line to the width of the terminal. If the text wrapped, only its last part could be erased. */
function fitStatus(variants: StatusVariants, width: number): string {
  const texts = variants.map(sanitizeForTerminal);
  return texts.find((text) => widthOf(text) <= width) ?? cutToWidth(texts.at(-1) ?? '', width);
}

export type Console = ReturnType<typeof createConsole>;

/** Functions that replace a secret, by that secret. */
export type Redactors = Map<string, (text: string) => string>;

export type ConsoleOptions = {
  /** Prints events as JSON on stderr, for `--json`. */
  json: boolean;
  /** Prints no notes and no progress, for `--quiet`. */
  quiet?: boolean;
  color: ColorMode;
  /** The format of the data, which may be JSON without `--json`. */
  format?: Format | undefined;
  /** Replaces stdout. */
  output?: OutputFile | undefined;
  /** What `redact` was called with, for the consoles of one run of the program. */
  redactors?: Redactors;
};

/** Matches values of TZ that mean UTC. Node reports UTC for unknown values too. */
const UTC_NAME = /^:?(?:(?:Etc\/)?(?:UTC|UCT|GMT|Zulu|Universal|Greenwich)0?)?$/i;

/** Writes data to stdout or to the file of `--output`, and everything else to stderr. */
export function createConsole(
  context: Context,
  { json, quiet = false, color, output, redactors = new Map(), ...data }: ConsoleOptions,
) {
  const { stderr, env } = context;
  const stdout = output?.stream ?? context.stdout;
  const errorColors = colorsFor(stderr, env, color);
  const isTerminal = stdout.isTTY === true;
  const { format = json ? 'json' : 'text' } = data;
  /** Whether `status` prints anything: only without `--json`, and on a terminal that can erase a line. */
  const hasStatus = stderr.isTTY === true && !json && !quiet && env['TERM'] !== 'dumb';
  const errorColumns = () => stderr.columns || DEFAULT_COLUMNS;
  const removePasswords = createPasswordRemover([...context.argv, env['PETS_DATA']?.trim() ?? '']);
  if (removePasswords) redactors.set('', removePasswords);
  /** Redacts the passwords of URLs in the command line and PETS_DATA, and everything that was passed to `redact`. */
  const redactAll = (text: string) => [...redactors.values()].reduce((result, each) => each(result), text);
  const notices = new Set<string>();
  let isStatusShown = false;
  let userZone: string | undefined;
  let formatLocal: ((instant: number) => string) | undefined;
  let finished: Promise<void> | undefined;

  /** Replaces the status line at the bottom of the terminal; undefined removes it. */
  function status(variants: StatusVariants | undefined): void {
    if (!hasStatus || (variants === undefined && !isStatusShown)) return;
    const shown = variants === undefined ? '' : redactAll(fitStatus(variants, errorColumns() - ECHO_COLUMNS));
    stderr.write(`\r${ERASE_LINE}${shown}`);
    isStatusShown = variants !== undefined;
  }

  /**
   * Prints an event on stderr: the object with `--json`, otherwise the text. With `indent`, the text is wrapped to the
   * terminal, and further lines are indented by that many columns.
   */
  function event(value: Record<string, unknown>, text: string, indent?: number): void {
    status(undefined);
    if (json) {
      const redacted = redactors.size === 0 ? value : mapStrings(value, redactAll);
      stderr.write(`${sanitizeJson(stringifyJson(redacted))}\n`);
      return;
    }
    const redacted = redactAll(text);
    const isWrapped = indent !== undefined && stderr.isTTY === true;
    stderr.write(`${isWrapped ? wrapText(redacted, errorColumns(), indent) : redacted}\n`);
  }

  /** Prints a note on stderr. Control characters in the text are escaped. */
  function notice(text: string): void {
    if (quiet) return;
    notices.add(text);
    event({ notice: text }, `${errorColors.yellow('note:')} ${sanitizeForTerminal(text)}`, 2);
  }

  /** The user's time zone, or UTC if Node does not know it. If the value of TZ is the cause, a note says so. */
  function localTimeZone(): string {
    if (userZone !== undefined) return userZone;
    const { TZ = '' } = env;
    const zone = context.timeZone();
    userZone = zone === undefined || zone === 'Etc/Unknown' ? 'UTC' : zone;
    if (userZone === 'UTC' && !UTC_NAME.test(TZ))
      notice(`TZ=${TZ} is not a time zone; times are in UTC. Set TZ, for example: TZ=Europe/Berlin`);
    return userZone;
  }

  /** Writes data, without the passwords that `removePasswords` removes. @throws OutputError, InterruptedError */
  function write(text: string): Promise<void> {
    status(undefined);
    return new Promise((resolve, reject) => {
      stdout.write(removePasswords?.(text) ?? text, (error) =>
        error ? reject(toOutputError(error)) : resolve(),
      );
    });
  }

  const toOutputError = (error: NodeJS.ErrnoException) =>
    error instanceof InterruptedError ? error : new OutputError(error, output?.name);

  async function commit(): Promise<void> {
    if (output === undefined) return;
    try {
      await output.commit();
    } catch (error) {
      throw toOutputError(error as NodeJS.ErrnoException);
    }
    if (stderr.isTTY === true) notice(`wrote ${output.name}`);
  }

  return {
    format,
    json: format === 'json',
    /** True with `--json`. Events are then one JSON object per line on stderr. */
    hasJsonEvents: json,
    /** The time zone of times in messages: the user's if stderr is a terminal; UTC elsewhere and with `--json`. */
    timeZone: (): string => (stderr.isTTY === true && !json ? localTimeZone() : 'UTC'),
    localTimeZone,
    localTime(instant: number): string {
      formatLocal ??= createTimeFormatter(localTimeZone());
      return formatLocal(instant);
    },
    /** Whether a person reads the data, because it is written to a terminal. */
    isTerminal,
    /** True if people read stderr (a terminal, without `--json`), and the data is a table or goes to a file. */
    isForPeople: stderr.isTTY === true && !json && (format === 'table' || output !== undefined),
    /** The width of tables: that of the terminal, or unlimited in a file. A terminal of unknown size reports 0 columns. */
    columns: output ? Number.POSITIVE_INFINITY : stdout.columns || DEFAULT_COLUMNS,
    hasDecimalComma: context.hasDecimalComma,
    /** The colors for data. A file has none. */
    colors: colorsFor(stdout, env, output ? 'never' : color),
    errorColors,
    write,
    /** Writes a JSON document: indented on a terminal, elsewhere on one line. @throws the errors of `write` */
    writeJson(value: unknown) {
      const text = stringifyJson(value, { indent: isTerminal ? 2 : undefined });
      return write(`${isTerminal || format !== 'json' ? sanitizeJson(text) : text}\n`);
    },
    /**
     * Completes the output of data. Only this call replaces the file of `--output`. The program makes it after a command
     * has succeeded; a command that may fail after its output makes it earlier. @throws OutputError, InterruptedError
     */
    finish: (): Promise<void> => (finished ??= commit()),
    /** Redacts a secret from all further output on stderr, for example an API key that a service sends back. */
    redact: (key: string) => redactors.set(key, createRedactor(key)),
    redactAll,
    hasStatus,
    status,
    notice,
    /** Like `notice`, but does nothing if this command has printed the same note before. */
    noticeOnce(text: string): void {
      if (!notices.has(text)) notice(text);
    },
    event,
  };
}

/** Applies a function to every string in a JSON value, including property names. */
function mapStrings(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value);
  if (Array.isArray(value)) return value.map((element) => mapStrings(element, change));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [change(name), mapStrings(member, change)]),
  );
}

/**
 * Returns the colors for a stream. With `--color auto`, the first of these rules that applies decides:
 * 1. A non-empty NO_COLOR disables colors.
 * 2. A non-empty FORCE_COLOR enables colors, or disables them if its value is `0` or `false`.
 * 3. A terminal has colors, unless TERM is `dumb`. Other streams have none.
 */
function colorsFor(stream: OutputStream, env: Context['env'], mode: ColorMode): ChalkInstance {
  return new Chalk({ level: hasColor(stream, env, mode) ? 1 : 0 });
}

function hasColor(stream: OutputStream, env: Context['env'], mode: ColorMode): boolean {
  if (mode !== 'auto') return mode === 'always';
  if (env['NO_COLOR']) return false;
  const force = env['FORCE_COLOR'];
  if (force !== undefined && force !== '') return force !== '0' && force !== 'false';
  return stream.isTTY === true && env['TERM'] !== 'dumb';
}
