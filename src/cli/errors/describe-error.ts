import { InterruptedError } from '../../client/errors.ts';
import { KeyNotFoundError, StoreError, StoreRequestError } from '../../store/errors.ts';
import { CliError } from '../core/errors.ts';
import { type CliErrorCode, type UserError, userError } from '../core/exit-codes.ts';
import { type Console, OutputError } from '../output/console.ts';
import { redactKey } from '../output/redact.ts';
import { sanitizeForTerminal } from '../output/sanitize.ts';
import { cutToWidth } from '../output/text.ts';
import { CallError, describeCallError, type ErrorContext } from './call-error.ts';

/** Converts any error into a message, a hint and an exit code. Nothing else in the program does this. */
export function describeError(error: unknown, context: ErrorContext): UserError {
  if (!(error instanceof CallError)) return describeOwn(error) ?? unexpected(error);
  const { cause, connection } = error;
  const { code, message, hint, ...rest } =
    describeOwn(cause) ?? describeCallError(cause, error, context) ?? unexpected(cause);
  // The service may have included the API key in its error, and the output of pets may end up in a log.
  const { key } = connection;
  return {
    ...rest,
    code: redactKey(code, key),
    message: redactKey(message, key),
    hint: error.hint ?? hint,
  };
}

function describeOwn(error: unknown): UserError | undefined {
  if (error instanceof CliError) {
    const { code, message, hint, mayHaveBeenAdded } = error;
    return userError(code, message, { hint, mayHaveBeenAdded });
  }
  if (error instanceof StoreError) return userError(codeOf(error), error.message, { hint: error.hint });
  if (error instanceof InterruptedError) return userError('interrupted', 'interrupted');
  if (error instanceof OutputError)
    return userError('output_error', `cannot write ${error.file ?? 'the output'}: ${error.message}`, {
      hint: `${isDiskFull(error) ? 'free some disk space, or ' : ''}write the output somewhere else`,
    });
  return undefined;
}

const isDiskFull = ({ code = '' }: OutputError): boolean => ['ENOSPC', 'EDQUOT'].includes(code);

function codeOf(error: StoreError): CliErrorCode {
  if (error instanceof KeyNotFoundError) return 'not_found';
  return error instanceof StoreRequestError ? 'usage' : 'store_error';
}

const unexpected = (error: unknown): UserError =>
  userError('internal_error', `unexpected error: ${error instanceof Error ? error.message : String(error)}`, {
    hint: 'this is a bug; please report it with the output of the same command with --debug',
  });

/** Error messages are cut to this number of columns. With --json, they are printed in full. */
const MAX_MESSAGE = 2_000;

/** Prints an error and its hint as text. With --json, prints one JSON object. */
export function printError(console: Console, { exitCode, ...error }: UserError): void {
  const { red, dim } = console.errorColors;
  const hint = error.hint === undefined ? '' : `\n  ${dim('→')} ${sanitizeForTerminal(error.hint)}`;
  // Redact before cutting, because a part of a password would not be recognized.
  const start = console.redactAll(error.message).slice(0, 2 * MAX_MESSAGE);
  const message = cutToWidth(sanitizeForTerminal(start), MAX_MESSAGE);
  console.event({ error: { ...error, exitCode } }, `${red('error:')} ${message}${hint}`, 4);
}

/** Prints the stack of an error, for --debug. */
export function printStack(console: Console, error: unknown): void {
  const stack = error instanceof Error ? (error.stack ?? error.message) : String(error);
  // Line breaks in the message are data, so they are escaped. Line breaks between stack frames are printed.
  const end = error instanceof Error ? stack.indexOf(error.message) + error.message.length : 0;
  const frames = stack.slice(end).split('\n').map(sanitizeForTerminal);
  const text = `${sanitizeForTerminal(stack.slice(0, end))}${frames.join('\n')}`;
  console.event({ debug: { stack } }, console.errorColors.dim(text));
}
