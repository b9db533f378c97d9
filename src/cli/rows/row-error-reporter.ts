import { usageError } from '../errors/errors.ts';
import type { Console } from '../output/console.ts';
import { sanitizeForTerminal } from '../output/sanitize.ts';
import type { RowError } from './row.ts';

/** Further errors are only counted by kind. */
export const MAX_ROW_ERRORS_SHOWN = 20;

const MAX_KINDS_SHOWN = 5;

/** Counts errors by kind. */
export class RowErrorSummary {
  #count = 0;
  readonly #kinds = new Map<string, number>();

  add({ error, kind = error }: RowError): void {
    this.#count++;
    this.#kinds.set(kind, (this.#kinds.get(kind) ?? 0) + 1);
  }

  /** `and 40 more errors: status must be one of …`; undefined if there are none. */
  describe(): string | undefined {
    const kinds = [...this.#kinds].toSorted(([, a], [, b]) => b - a);
    const [only] = kinds;
    if (only === undefined) return undefined;
    if (kinds.length === 1) return `and ${this.#count} more errors: ${only[0]}`;
    const shown = kinds.slice(0, MAX_KINDS_SHOWN).map(([kind, count]) => `${count} × ${kind}`);
    if (kinds.length > MAX_KINDS_SHOWN) shown.push('and others');
    return `and ${this.#count} more errors: ${shown.join('; ')}`;
  }
}

/** Reports row errors on stderr as they occur: all of them with `--json`, otherwise the first 20. */
export class RowErrorReporter {
  readonly #console: Console;
  readonly #source: string;
  readonly #more = new RowErrorSummary();
  #count = 0;

  /** @param source the name of the input in messages */
  constructor(console: Console, source: string) {
    this.#console = console;
    this.#source = source;
  }

  async report(line: number, rowError: RowError): Promise<void> {
    const [console, source] = [this.#console, this.#source];
    if (++this.#count > MAX_ROW_ERRORS_SHOWN && !console.json) return this.#more.add(rowError);
    const message = rowError.error;
    const text = sanitizeForTerminal(`${source}, line ${line}: ${message}`);
    console.event({ fault: { source, line, message } }, text);
    await console.drain();
  }

  /** @throws CliError if any error was reported */
  throwIfAny(): void {
    if (this.#count === 0) return;
    const more = this.#more.describe();
    if (more !== undefined) this.#console.event({ notice: more }, sanitizeForTerminal(`… ${more}`));
    const count = this.#count === 1 ? '1 error' : `${this.#count} errors`;
    const hint = more === undefined ? 'fix the lines above' : 'fix these errors; --json lists all of them';
    throw usageError(`${count} in ${this.#source}; nothing was sent`, hint);
  }
}
