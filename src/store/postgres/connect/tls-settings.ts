import { X509Certificate } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type ConnectionOptions, createSecureContext, type SecureContextOptions } from 'node:tls';
import { errnoOf } from '../../../system/file-system.ts';
import { StoreError } from '../../errors.ts';
import { type ConnectionParameters, type SslMode, SYSTEM_AUTHORITIES } from './connection-parameters.ts';

type TlsFiles = Pick<ConnectionParameters, 'sslrootcert' | 'sslcert' | 'sslkey' | 'sslpassword'>;

/**
 * Reads the certificates for a connection. As in libpq, the server's certificate is verified in every mode if there is a
 * file with authorities, and its host name only with verify-full. By default, the files are in `~/.postgresql`. Unlike in
 * libpq, a file must exist if a parameter names it.
 *
 * @see https://www.postgresql.org/docs/current/libpq-ssl.html
 * @throws StoreError
 */
export async function readTlsSettings(
  mode: SslMode,
  files: TlsFiles,
  homeDirectory: string,
): Promise<ConnectionOptions> {
  const inHome = (name: string): string => join(homeDirectory, '.postgresql', name);
  const trustsSystem = files.sslrootcert === SYSTEM_AUTHORITIES;
  const rootFile = files.sslrootcert || inHome('root.crt');
  const ca = trustsSystem ? undefined : await readOptional(rootFile, Boolean(files.sslrootcert));
  if (mode.startsWith('verify') && !trustsSystem && ca === undefined) {
    throw new StoreError(
      `sslmode=${mode} needs the certificate of an authority, and ${rootFile} does not exist`,
      `name a file with sslrootcert, or use sslrootcert=${SYSTEM_AUTHORITIES}&sslmode=verify-full`,
    );
  }
  const certificateFile = files.sslcert || inHome('postgresql.crt');
  const cert = await readOptional(certificateFile, Boolean(files.sslcert));
  const keyFile = files.sslkey || inHome('postgresql.key');
  const key = cert === undefined ? undefined : await readKey(keyFile);
  if (ca !== undefined) useFile(rootFile, () => new X509Certificate(ca));
  const options: SecureContextOptions = { ca, cert, key, passphrase: files.sslpassword };
  return {
    secureContext: useFile(`${certificateFile} with ${keyFile}`, () => createSecureContext(options)),
    rejectUnauthorized: trustsSystem || ca !== undefined,
    ...(mode !== 'verify-full' && { checkServerIdentity: () => undefined }),
  };
}

async function readOptional(path: string, isRequired: boolean): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (!isRequired && ['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return undefined;
    throw fileError(path, error);
  }
}

async function readKey(path: string): Promise<string> {
  try {
    const { mode, uid } = await stat(path);
    // As in libpq, a group may read a key that belongs to root.
    if (mode & (uid === 0 ? 0o037 : 0o077)) {
      throw new StoreError(
        `other users can read the private key ${path}`,
        `make it private: chmod 600 ${path}`,
      );
    }
    return await readFile(path, 'utf8');
  } catch (error) {
    throw error instanceof StoreError ? error : fileError(path, error);
  }
}

function useFile<Result>(files: string, use: () => Result): Result {
  try {
    return use();
  } catch (error) {
    throw new StoreError(
      `cannot use ${files}: ${error instanceof Error ? error.message : error}`,
      'check sslrootcert, sslcert, sslkey and sslpassword of the database URL',
    );
  }
}

const fileError = (path: string, error: unknown): StoreError =>
  new StoreError(
    `cannot read ${path} (${errnoOf(error)})`,
    'check sslrootcert, sslcert and sslkey of the database URL',
  );
