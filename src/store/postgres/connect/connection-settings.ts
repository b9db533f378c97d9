import { join } from 'node:path';
import type { ClientConfig } from 'pg';
import { StoreError } from '../../errors.ts';
import type { ConnectionParameters, SslMode } from './connection-parameters.ts';
import type { DatabaseTarget } from './database-target.ts';
import { readPasswordFile } from './password-file.ts';
import { findSocketDirectory } from './socket-directory.ts';
import { readTlsSettings } from './tls-settings.ts';

/** How to connect to a database now. */
export type ConnectionSettings = {
  /** One or two settings to try in this order, see `connectClient`. Of two, one uses TLS and the other does not. */
  attempts: readonly ClientConfig[];
  requiresChannelBinding: boolean;
  /** Problems that do not prevent a connection. */
  warnings: readonly string[];
};

/**
 * Reads the files that the connection depends on: sockets, passwords and certificates.
 *
 * @throws StoreError
 */
export async function readConnectionSettings(
  target: DatabaseTarget,
  homeDirectory: string,
): Promise<ConnectionSettings> {
  const { user, database, port, sslmode, parameters } = target;
  const host = target.host ?? (await findSocketDirectory(port)) ?? 'localhost';
  const passwordFile = parameters.passfile || join(homeDirectory, '.pgpass');
  const found = parameters.password
    ? { password: parameters.password }
    : await readPasswordFile(passwordFile, { host, port, database, user });
  const warning = 'warning' in found ? found.warning : undefined;
  // The driver would use its own environment variables for parameters that are missing here.
  const plain: ClientConfig = {
    host,
    port,
    user,
    database,
    // A function, so that the password is not printed with the settings.
    password: () => found.password ?? missingPassword(user, warning),
    application_name: parameters.application_name || 'pets',
    options: parameters.options,
    keepAlive: true,
    sslnegotiation: 'postgres',
    ssl: false,
  };
  // As in libpq, a connection through a socket never uses TLS.
  const mode = host.startsWith('/') ? 'disable' : sslmode;
  return {
    attempts: await attemptsOf(plain, mode, parameters, homeDirectory),
    requiresChannelBinding: parameters.channel_binding === 'require',
    warnings: warning === undefined ? [] : [warning],
  };
}

/** The settings without TLS, with TLS, or both, as the sslmode demands. */
async function attemptsOf(
  plain: ClientConfig,
  mode: SslMode,
  parameters: ConnectionParameters,
  homeDirectory: string,
): Promise<ClientConfig[]> {
  if (mode === 'disable') return [plain];
  const encrypted: ClientConfig = {
    ...plain,
    ssl: await readTlsSettings(mode, parameters, homeDirectory),
    enableChannelBinding: parameters.channel_binding !== 'disable',
  };
  if (parameters.channel_binding === 'require') return [encrypted];
  if (mode === 'allow') return [plain, encrypted];
  return mode === 'prefer' ? [encrypted, plain] : [encrypted];
}

function missingPassword(user: string, warning: string | undefined): never {
  throw new StoreError(
    `the database asks for a password of the user ${user}, and none is set`,
    warning ?? 'set PGPASSWORD, or add the password to ~/.pgpass',
  );
}
