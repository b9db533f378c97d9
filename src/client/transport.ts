import type { Clock } from '../contract/clock.ts';
import type { Attempt, Outcome, Times } from './attempt.ts';
import { createDispatcher } from './dispatcher.ts';
import { Exchange } from './exchange.ts';
import type { HttpProxy } from './proxy-dispatcher.ts';

/** Sends one attempt and reads its whole reply. It never retries and never follows a redirect. */
export interface Transport {
  /** Never rejects. */
  send(attempt: Attempt): Promise<{ outcome: Outcome; times: Times }>;
  close(): Promise<void>;
}

export function createTransport({
  clock,
  proxy,
}: {
  clock: Clock;
  proxy?: HttpProxy | undefined;
}): Transport {
  const dispatcher = createDispatcher(proxy);
  return {
    send: async (attempt) => new Exchange(attempt, clock).run(await dispatcher),
    close: async () => (await dispatcher).destroy(),
  };
}
