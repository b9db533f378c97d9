import type { Errand } from './errand.ts';
import type { Answer } from './handlers.ts';

const MAX_TARGETS = 128;
const MAX_BODY_LENGTH = 2 ** 14;

/**
 * Remembers answers that are the same whenever they are asked for, by their request target: those that were asked for
 * twice. Who walks through all pages asks once for each, and drives out none of them.
 */
export class FinalAnswers {
  #known = new Map<string, Pick<Errand, 'operation'> & { answer: Answer }>();
  /** The targets of the last final answers that are not known. */
  #once = new Set<string>();

  get({ operation, target }: Errand): Answer | undefined {
    const known = this.#known.get(target);
    return known?.operation === operation ? known.answer : undefined;
  }

  /** Takes notice of an answer: nothing comes of it where it is not final, or large. */
  add({ operation, target }: Errand, answer: Answer): void {
    if (!answer.isFinal || answer.body.length > MAX_BODY_LENGTH) return;
    if (this.#once.delete(target)) {
      makeRoom(this.#known);
      this.#known.set(target, { operation, answer });
    } else {
      makeRoom(this.#once);
      this.#once.add(target);
    }
  }

  clear(): void {
    this.#known.clear();
    this.#once.clear();
  }
}

/** Drops the oldest of as many as there may be. */
function makeRoom(targets: Map<string, unknown> | Set<string>): void {
  const [oldest] = targets.size < MAX_TARGETS ? [] : targets.keys();
  if (oldest !== undefined) targets.delete(oldest);
}
