import { Client, type ClientConfig, DatabaseError } from 'pg';
import { StoreError } from '../../errors.ts';
import type { ConnectionSettings } from './connection-settings.ts';

/**
 * Connects to a database. If the server refuses TLS, or refuses a connection without TLS, tries the other kind if the
 * sslmode permits it.
 *
 * @param overrides settings of the driver that replace those of the user, for example timeouts
 * @throws a DatabaseError, a system error, a TLS error, another error of the driver, or a StoreError
 */
export async function connectClient(
  { attempts, requiresChannelBinding }: ConnectionSettings,
  overrides: ClientConfig = {},
): Promise<Client> {
  let failure: unknown;
  for (const attempt of attempts) {
    const config = { ...attempt, ...overrides };
    try {
      return await (requiresChannelBinding ? connectWithBinding(config) : connect(new Client(config)));
    } catch (error) {
      // If the server has no TLS, the error of the attempt without TLS is the useful one.
      if (failure === undefined || !isWithoutTls(error)) failure = error;
      if (!isRefusedBecauseOfTls(error)) break;
    }
  }
  throw failure;
}

/**
 * Whether the server may accept a connection with TLS instead of one without, or vice versa. As in libpq, these are
 * servers without TLS, failed TLS handshakes, and rejected users, because rules in pg_hba.conf can depend on TLS.
 */
export function isRefusedBecauseOfTls(error: unknown): boolean {
  if (!(error instanceof Error) || error instanceof StoreError) return false;
  const code = 'code' in error ? String(error.code) : '';
  if (error instanceof DatabaseError) return code.startsWith('28');
  if (isWithoutTls(error)) return true;
  // The codes of TLS errors consist of words, for example ERR_SSL_WRONG_VERSION_NUMBER or CERT_HAS_EXPIRED.
  return code === 'EPROTO' || (code.includes('_') && !code.startsWith('ERR_SOCKET'));
}

const isWithoutTls = (error: unknown): boolean =>
  error instanceof Error && error.message === 'The server does not support SSL connections';

async function connect(client: Client): Promise<Client> {
  // Without a listener, an error after the connection is made would end the process.
  client.on('error', () => {});
  try {
    return await client.connect();
  } catch (error) {
    // A graceful end would wait for a server that may not respond.
    client.connection.stream.destroy();
    throw error;
  }
}

/** Connects with channel binding. If the server does not offer it, rejects before a password is sent. */
async function connectWithBinding(config: ClientConfig): Promise<Client> {
  let isOffered = false;
  const { password } = config;
  const client = new Client({
    ...config,
    password: () => {
      if (!isOffered) throw bindingError();
      return typeof password === 'function' ? password() : (password ?? '');
    },
  });
  client.connection.on('authenticationSASL', ({ mechanisms }: { mechanisms: string[] }) => {
    isOffered = mechanisms.includes('SCRAM-SHA-256-PLUS');
  });
  await connect(client);
  // The driver sets its session to null after it has verified the signature of the server.
  if ('saslSession' in client && client.saslSession === null) return client;
  await client.end();
  throw bindingError();
}

const bindingError = (): StoreError =>
  new StoreError(
    'the database does not offer channel binding',
    'remove channel_binding=require from the database URL, or connect without a proxy that ends TLS',
  );
