/** A duration in at most two units: `42 s`, `6 min 33 s`, `3 h 5 min`, `2 days 4 h`. The smaller unit is rounded up. */
export function formatDuration(milliseconds: number): string {
  const seconds = Math.ceil(Math.max(0, milliseconds) / 1_000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return inTwoUnits(seconds, 60, 'min', 's');
  const minutes = Math.ceil(seconds / 60);
  if (minutes < 24 * 60) return inTwoUnits(minutes, 60, 'h', 'min');
  const hours = Math.ceil(minutes / 60);
  return inTwoUnits(hours, 24, hours < 48 ? 'day' : 'days', 'h');
}

function inTwoUnits(count: number, size: number, large: string, small: string): string {
  const rest = count % size;
  return `${Math.floor(count / size)} ${large}${rest === 0 ? '' : ` ${rest} ${small}`}`;
}

/**
 * Returns a function that formats instants, in milliseconds since the epoch, as `2026-11-20 13:00:00 CET`. `zone` is
 * the name of a time zone in the IANA database; undefined means that of the system.
 */
export function createTimeFormatter(zone: string | undefined): (instant: number) => string {
  // Intl takes milliseconds to load, and UTC does not need it.
  if (zone === 'UTC') return (at) => `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
  const two = '2-digit';
  const time = { year: 'numeric', month: two, day: two, hour: two, minute: two, second: two } as const;
  // Swedish times have the form `2026-11-20 13:00:00 CET`, but zones such as `GMT-3` have a typographic minus sign.
  const { format } = new Intl.DateTimeFormat('sv-SE', { ...time, timeZoneName: 'short', timeZone: zone });
  return (instant) => format(instant).replace('\u2212', '-');
}
