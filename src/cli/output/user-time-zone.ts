import { realpathSync } from 'node:fs';

/** A time zone of `createZone`. If the user's time zone is not known, it is UTC, and `problem` explains why. */
export type UserTimeZone = { name: string; problem?: string };

/** Matches a zone of POSIX without summer time, such as `EST5`, `UTC+3` or `<+0530>-5:30`. */
const FIXED = /^(?:[a-z]{3,}|<[a-z\d+-]{3,}>)(?<sign>[+-]?)(?<hours>\d{1,2})(?::(?<minutes>[0-5]\d))?$/i;

/**
 * Finds the user's time zone. Node uses UTC for many values of TZ that other programs understand, and does not report it.
 * It ignores summer time if the value is the path of a file. So the value is interpreted here.
 *
 * @param variable the value of the variable TZ
 * @param systemName the name of the time zone that Node uses; undefined if Node finds none
 */
export function findTimeZone(variable: string | undefined, systemName: string | undefined): UserTimeZone {
  if (variable === '') return { name: 'UTC' };
  if (variable === undefined) {
    if (isZoneName(systemName)) return { name: systemName };
    return { name: 'UTC', problem: unknownZone("this system's time zone is unknown") };
  }
  const value = variable.replace(/^:/, '');
  const name = [value, realPathOf(value)].map(zoneOfPath).find(isZoneName) ?? fixedOffset(value);
  if (name !== undefined) return { name };
  // Node also understands some zones of POSIX with summer time, such as EST5EDT,M3.2.0,M11.1.0.
  if (systemName !== 'UTC' && isZoneName(systemName)) return { name: systemName };
  return { name: 'UTC', problem: unknownZone(`TZ=${variable} is not the name of a time zone`) };
}

const unknownZone = (reason: string) => `${reason}; times are in UTC. Set TZ, for example: TZ=Europe/Berlin`;

function isZoneName(name: string | undefined): name is string {
  if (name === undefined || name === 'Etc/Unknown') return false;
  try {
    new Intl.DateTimeFormat('en-US', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** The name of a zone whose file has this path, such as `/usr/share/zoneinfo/posix/Europe/Berlin`. */
const zoneOfPath = (path: string | undefined): string | undefined =>
  path?.replace(/^\/.*\/zoneinfo\//, '').replace(/^(?:posix|right)\//, '');

/** The target of a link such as `/etc/localtime`. */
function realPathOf(path: string): string | undefined {
  try {
    return path.startsWith('/') ? realpathSync(path) : undefined;
  } catch {
    return undefined;
  }
}

/** An offset such as `+05:30`. In POSIX, the sign is the opposite: `UTC+3` is three hours behind UTC. */
function fixedOffset(value: string): string | undefined {
  const { sign = '', hours = '', minutes = '00' } = FIXED.exec(value)?.groups ?? {};
  if (hours === '' || Number(hours) > 23) return undefined;
  if (Number(hours) + Number(minutes) === 0) return 'UTC';
  return `${sign === '-' ? '+' : '-'}${hours.padStart(2, '0')}:${minutes}`;
}
