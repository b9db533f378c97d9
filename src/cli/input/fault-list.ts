import { usageError } from '../errors/cli-error.ts';
import type { Console } from '../output/console.ts';
import { visible } from '../output/visible.ts';
import type { RowFault } from './read-row.ts';

/** Whoever reads the lines has seen enough of them; the rest is told by its kinds. */
export const FAULTS_SHOWN = 20;

const KINDS_SHOWN = 5;

/** Faults that are not shown one by one, counted by their kinds. */
export class MoreFaults {
  #count = 0;
  readonly #kinds = new Map<string, number>();

  add({ fault, kind = fault }: RowFault): void {
    this.#count++;
    this.#kinds.set(kind, (this.#kinds.get(kind) ?? 0) + 1);
  }

  /** `and 40 more: status must be one of …`; undefined where there are none. */
  describe(): string | undefined {
    const kinds = [...this.#kinds].toSorted(([, a], [, b]) => b - a);
    const [only] = kinds;
    if (only === undefined) return undefined;
    if (kinds.length === 1) return `and ${this.#count} more: ${only[0]}`;
    const shown = kinds.slice(0, KINDS_SHOWN).map(([kind, count]) => `${count} × ${kind}`);
    if (kinds.length > KINDS_SHOWN) shown.push('and others');
    return `and ${this.#count} more: ${shown.join('; ')}`;
  }
}

/** Tells the faults of an input on stderr as they come: a program each of them, a person the first ones. */
export class FaultTeller {
  readonly #console: Console;
  readonly #name: string;
  readonly #more = new MoreFaults();
  #count = 0;

  constructor(console: Console, name: string) {
    this.#console = console;
    this.#name = name;
  }

  async tell(line: number, fault: RowFault): Promise<void> {
    const [console, name] = [this.#console, this.#name];
    if (++this.#count > FAULTS_SHOWN && !console.json) return this.#more.add(fault);
    const message = fault.fault;
    console.event({ fault: { source: name, line, message } }, visible(`${name}, line ${line}: ${message}`));
    await console.settled();
  }

  /** @throws CliError where there was a fault */
  end(): void {
    if (this.#count === 0) return;
    const more = this.#more.describe();
    if (more !== undefined) this.#console.event({ notice: more }, visible(`… ${more}`));
    const count = this.#count === 1 ? 'a fault' : `${this.#count} faults`;
    const hint =
      more === undefined ? 'mend the lines that are named above' : 'mend them; each is listed with --json';
    throw usageError(`${this.#name} has ${count}; nothing was sent`, hint);
  }
}
