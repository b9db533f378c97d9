import { userInfo } from 'node:os';
import type { StoreLocation } from '../../store/backend.ts';
import type { Context } from '../context.ts';
import { dataDirectory } from './paths.ts';

/** The place of the local service's store: the value of `--data`, or else the directory of the user's data. */
export async function openLocation(data: string | undefined, context: Context): Promise<StoreLocation> {
  const { parseLocation } = await import('../../store/location.ts');
  return parseLocation(data ?? dataDirectory(context), { ...context, userName: userName() });
}

/** Undefined if the user has no name, as in some containers. */
function userName(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    return undefined;
  }
}
