/// <reference path="./undici.d.ts" />
import type { Dispatcher } from 'undici';
import Agent from 'undici/lib/dispatcher/agent.js';
import type { Clock } from '../contract/clock.ts';
import { type Attempt, type AttemptResult, runAttempt, type StartTimer } from './attempt.ts';
import type { HttpProxy } from './proxy-dispatcher.ts';

/** Sends single attempts over connections that it keeps open. Does not retry and does not follow redirects. */
export interface Transport {
  /** Never rejects. */
  send(attempt: Attempt): Promise<AttemptResult>;
  close(): Promise<void>;
}

export type TransportOptions = {
  clock: Clock;
  proxy?: HttpProxy | undefined;
  /** `setTimeout` by default. */
  startTimer?: StartTimer | undefined;
};

export function createTransport({ clock, proxy, startTimer = startTimeout }: TransportOptions): Transport {
  const dispatcher = createDispatcher(proxy);
  return {
    send: async (attempt) => runAttempt(attempt, { dispatcher: await dispatcher, clock, startTimer }),
    close: async () => (await dispatcher).destroy(),
  };
}

const startTimeout: StartTimer = (milliseconds, callback) => {
  const timer = setTimeout(callback, milliseconds);
  return () => clearTimeout(timer);
};

const CONNECTION_OPTIONS = {
  // Undici's timeouts are off: `Attempt.timeoutMilliseconds` covers the whole attempt, also the name lookup.
  headersTimeout: 0,
  bodyTimeout: 0,
  connect: { timeout: 0 },
  // The build leaves out undici's HTTP/2 client.
  allowH2: false,
} as const;

async function createDispatcher(proxy: HttpProxy | undefined): Promise<Dispatcher> {
  if (proxy === undefined) return new Agent(CONNECTION_OPTIONS);
  // Loaded only for a proxy, because it loads all of undici.
  const { createProxyDispatcher } = await import('./proxy-dispatcher.ts');
  return createProxyDispatcher(proxy, CONNECTION_OPTIONS);
}
