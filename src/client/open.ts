import { type Client, type ClientOptions, createClient } from './client.ts';
import { InterruptedError } from './errors.ts';
import { createKnownService } from './known-service.ts';
import { createMarks } from './marks.ts';
import type { HttpProxy } from './proxy-dispatcher.ts';
import { createTransport } from './transport.ts';

export type OpenOptions = Omit<ClientOptions, 'service' | 'transport'> & {
  proxy?: HttpProxy | undefined;
  /** What this user's processes tell each other about services. */
  marksDirectory: string;
};

/**
 * A client with connections of its own, to be closed, that knows what other processes have learnt. What is on its way
 * when it is closed is interrupted.
 */
export function openClient({ proxy, marksDirectory, signal, ...options }: OpenOptions): {
  client: Client;
  close(): Promise<void>;
} {
  const { clock } = options;
  const transport = createTransport({ clock, proxy });
  const service = createKnownService(options, createMarks(marksDirectory, clock), clock);
  const closing = new AbortController();
  const client = createClient({
    ...options,
    signal: AbortSignal.any([signal, closing.signal]),
    service,
    transport,
  });
  return {
    client,
    close() {
      closing.abort(new InterruptedError());
      return transport.close();
    },
  };
}
