import { Chalk, type ChalkInstance } from 'chalk';
import { stringifyJson } from '../../contract/json.ts';
import { InterruptedError } from '../../system/clock.ts';
import { errnoOf, isNoSpace, systemReason } from '../../system/file-system.ts';
import { createTimeFormatter } from '../../system/time-text.ts';
import type { Context, OutputStream } from '../core/context.ts';
import { CliError, toCliError } from '../core/errors.ts';
import type { OutputFile } from './output-file.ts';
import { createRedactor, cut, sanitizeForTerminal, sanitizeJson } from './text.ts';

/**
 * The formats of the data that commands print. `lines` are rows with tabs and without a header, `excel` is CSV that
 * Excel opens correctly, and `text` is data that is not rows, such as a script or a report.
 */
export type Format = 'table' | 'lines' | 'tsv' | 'csv' | 'excel' | 'ndjson' | 'json' | 'text';

export const colorModes = ['auto', 'always', 'never'] as const;
export type ColorMode = (typeof colorModes)[number];

/** The error for data that could not be written to stdout or to the file of `--output`. */
const outputError = (cause: Error, file = 'the output'): CliError =>
  new CliError(`cannot write ${file}: ${systemReason(cause)}`, {
    code: 'output_error',
    hint: `${isNoSpace(cause) ? 'free some disk space, or ' : ''}write the output somewhere else`,
    cause,
  });

/** Whether the data could not be written because its reader has closed the pipe. */
export const isClosedPipe = (error: unknown): boolean =>
  error instanceof CliError && error.code === 'output_error' && errnoOf(error.cause) === 'EPIPE';

/** The width of a terminal that does not report one. */
const DEFAULT_COLUMNS = 80;
const ERASE_LINE = '\x1b[K';

export type Console = ReturnType<typeof createConsole>;

export type ConsoleOptions = {
  /** Prints events as JSON on stderr, for `--json`. */
  json: boolean;
  /** Prints no notes and no progress, for `--quiet`. */
  quiet?: boolean;
  color: ColorMode;
  /** The format of the data, which may be JSON without `--json`; undefined if the command prints none. */
  format?: Format | undefined;
  output?: OutputFile | undefined;
};

/** Matches values of TZ that mean UTC. If times are in UTC despite another value, Node does not know that value. */
const UTC_NAME = /^:?(?:(?:Etc\/)?(?:UTC|UCT|GMT|Zulu|Universal|Greenwich)0?)?$/i;

/** Writes data to stdout or to the file of `--output`, and everything else to stderr. */
export function createConsole(
  context: Context,
  { json, quiet = false, color, output, format: dataFormat }: ConsoleOptions,
) {
  const format = dataFormat ?? (json ? 'json' : 'text');
  const { stdout, stderr, env } = context;
  const errorColors = colorsFor(stderr, env, color);
  const isErrorTerminal = stderr.isTTY === true;
  const isTerminal = output === undefined && stdout.isTTY === true;
  /** Whether `showStatus` prints anything: without `--json` and `--quiet`, on a terminal that can erase a line. */
  const hasStatus = isErrorTerminal && !json && !quiet && env['TERM'] !== 'dumb';
  /** Functions that mask a secret such as an API key, by that secret. */
  const secretMasks = new Map<string, (text: string) => string>();
  const redactAll = (text: string) => [...secretMasks.values()].reduce((result, mask) => mask(result), text);
  const notices = new Set<string>();
  let isStatusShown = false;
  let userZone: string | undefined;
  let formatLocal: ((instant: number) => string) | undefined;

  /** Replaces the status line at the bottom of the terminal; undefined removes it. */
  function showStatus(text: string | undefined): void {
    if (!hasStatus || (text === undefined && !isStatusShown)) return;
    // Keep room for the ^C that the terminal echoes: of a line that wraps, only the last part could be erased.
    const columns = (stderr.columns || DEFAULT_COLUMNS) - 3;
    stderr.write(`\r${ERASE_LINE}${text === undefined ? '' : cut(text, columns)}`);
    isStatusShown = text !== undefined;
  }

  /** Prints an event on stderr: the object with `--json`, otherwise the text. */
  function event(value: Record<string, unknown>, text: string): void {
    showStatus(undefined);
    const redactString = (literal: string) => JSON.stringify(redactAll(JSON.parse(literal)));
    const line = json
      ? sanitizeJson(stringifyJson(value).replace(JSON_STRING, redactString))
      : redactAll(text);
    stderr.write(`${line}\n`);
  }

  /** Prints a note on stderr, except with `quiet` or if this command has printed it before. Control characters are escaped. */
  function notice(text: string): void {
    if (quiet || notices.has(text)) return;
    notices.add(text);
    event({ notice: text }, `${errorColors.yellow('note:')} ${sanitizeForTerminal(text)}`);
  }

  /** The user's time zone, or UTC if Node does not know it. If the value of TZ is the cause, a note says so. */
  function localTimeZone(): string {
    if (userZone !== undefined) return userZone;
    const { TZ = '' } = env;
    const zone = context.timeZone();
    userZone = zone === undefined || zone === 'Etc/Unknown' ? 'UTC' : zone;
    if (userZone === 'UTC' && !UTC_NAME.test(TZ))
      notice(`TZ=${TZ}: times are in UTC; for other times, set TZ to a name such as Europe/Berlin`);
    return userZone;
  }

  /** Writes text to stdout, or keeps it for `--output`. A signal ends the wait for a slow reader of data. @throws CliError */
  async function write(text: string): Promise<void> {
    showStatus(undefined);
    if (output) return output.write(text);
    let stopHandling = () => {};
    await new Promise<void>((resolve, reject) => {
      stdout.write(text, (error) => (error ? reject(outputError(error)) : resolve()));
      if (dataFormat !== undefined && stdout.writableLength > 0)
        stopHandling = context.onSignal(['SIGINT', 'SIGTERM'], () =>
          reject(toCliError(new InterruptedError())),
        );
    }).finally(stopHandling);
  }

  return {
    format,
    json: format === 'json',
    /** True with `--json`. Events are then one JSON object per line on stderr. */
    hasJsonEvents: json,
    /** The time zone of times in messages: the user's if stderr is a terminal; UTC elsewhere and with `--json`. */
    messageTimeZone: (): string => (isErrorTerminal && !json ? localTimeZone() : 'UTC'),
    localTimeZone,
    localTime(instant: number): string {
      formatLocal ??= createTimeFormatter(localTimeZone());
      return formatLocal(instant);
    },
    /** Whether a person reads the data, because it is written to a terminal. */
    isTerminal,
    /** True if people read stderr (a terminal, without `--json`), and the data is a table or goes to a file. */
    isForPeople: isErrorTerminal && !json && (format === 'table' || output !== undefined),
    /** The width of tables: that of the terminal, or unlimited in a file. A terminal of unknown size reports 0 columns. */
    columns: output ? Number.POSITIVE_INFINITY : stdout.columns || DEFAULT_COLUMNS,
    hasDecimalComma: context.hasDecimalComma,
    /** The colors for data. A file has none. */
    colors: colorsFor(stdout, env, output ? 'never' : color),
    errorColors,
    write,
    /** Writes a JSON document: indented on a terminal, elsewhere on one line. @throws CliError */
    writeJson(value: unknown) {
      const text = stringifyJson(value, { indent: isTerminal ? 2 : undefined });
      return write(`${isTerminal || format !== 'json' ? sanitizeJson(text) : text}\n`);
    },
    /**
     * Completes the output of data. Only `finish` replaces the file of `--output`. The program calls it after a command has
     * succeeded; a command that may fail after its output calls it earlier. @throws CliError
     */
    async finish(): Promise<void> {
      if (output === undefined) return;
      await output.commit().catch((error) => {
        throw outputError(error, output.name);
      });
      if (isErrorTerminal) notice(`wrote ${output.name}`);
    },
    /** Redacts a secret from all further events, for example an API key that a service sends back. */
    redact: (secret: string) => secretMasks.set(secret, createRedactor(secret)),
    redactAll,
    hasStatus,
    showStatus,
    notice,
    event,
  };
}

/** Matches the strings of a JSON document, including the names of fields. */
const JSON_STRING = /"(?:[^"\\]|\\.)*"/g;

/**
 * Returns the colors for a stream. With `--color auto`, the first of these rules that applies decides:
 * 1. A non-empty NO_COLOR disables colors.
 * 2. A non-empty FORCE_COLOR enables colors, or disables them if its value is `0` or `false`.
 * 3. A terminal has colors, unless TERM is `dumb`. Other streams have none.
 */
function colorsFor(stream: OutputStream, env: Context['env'], mode: ColorMode): ChalkInstance {
  const { NO_COLOR, FORCE_COLOR, TERM } = env;
  const isWanted = FORCE_COLOR ? !['0', 'false'].includes(FORCE_COLOR) : stream.isTTY && TERM !== 'dumb';
  const hasColor = mode === 'auto' ? !NO_COLOR && isWanted : mode === 'always';
  return new Chalk({ level: hasColor ? 1 : 0 });
}
