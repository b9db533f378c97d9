/// <reference path="./undici.d.ts" />
import type { Dispatcher } from 'undici';
import Agent from 'undici/lib/dispatcher/agent.js';
import type { HttpProxy } from './proxy-dispatcher.ts';

/** What every connection has. */
const options = {
  // Without undici's own times: the attempt's deadline rules, and undici's would end it earlier, or not at all.
  headersTimeout: 0,
  bodyTimeout: 0,
  connect: { timeout: 0 },
  // The built command leaves HTTP/2 out.
  allowH2: false,
} as const;

/** Connections to the service, directly or through a proxy. */
export async function createDispatcher(proxy?: HttpProxy): Promise<Dispatcher> {
  if (proxy === undefined) return new Agent(options);
  // It needs all of undici, which is waited for only here.
  const { createProxyDispatcher } = await import('./proxy-dispatcher.ts');
  return createProxyDispatcher(proxy, options);
}
