const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

// The formats of RFC 9110, 5.6.7. Date.parse would accept other texts too, and read the third format as local time.
const FORMATS = [
  /^[A-Z][a-z]{2}, (?<day>\d{2}) (?<month>[A-Z][a-z]{2}) (?<year>\d{4}) (?<time>\d{2}:\d{2}:\d{2}) GMT$/,
  /^[A-Z][a-z]{5,8}, (?<day>\d{2})-(?<month>[A-Z][a-z]{2})-(?<year>\d{2}) (?<time>\d{2}:\d{2}:\d{2}) GMT$/,
  /^[A-Z][a-z]{2} (?<month>[A-Z][a-z]{2}) (?<day>[ \d]\d) (?<time>\d{2}:\d{2}:\d{2}) (?<year>\d{4})$/,
];

/** Parses an HTTP-date into milliseconds since the epoch; undefined for any other text. `now` is for two-digit years. */
export function parseHttpDate(text: string, now: number): number | undefined {
  const parts = FORMATS.map((format) => format.exec(text)?.groups).find((groups) => groups !== undefined);
  if (parts === undefined) return undefined;
  const { day = '', month = '', year = '', time = '' } = parts;
  const [hour = 0, minute = 0, second = 0] = time.split(':').map(Number);
  const fullYear = year.length === 4 ? Number(year) : expandYear(Number(year), now);
  const date = new Date(0);
  date.setUTCFullYear(fullYear, MONTHS.indexOf(month), Number(day));
  // Count a leap second as second 59.
  date.setUTCHours(hour, minute, Math.min(second, 59));
  // Date carries a day, hour or minute that is too large into the next larger unit. Reject such a date.
  const isValid =
    MONTHS.includes(month) &&
    date.getUTCDate() === Number(day) &&
    date.getUTCHours() === hour &&
    second <= 60;
  return isValid ? date.getTime() : undefined;
}

/** Expands a two-digit year. A year more than 50 years in the future is moved back a century (RFC 9110, 5.6.7). */
function expandYear(digits: number, now: number): number {
  const thisYear = new Date(now).getUTCFullYear();
  const year = thisYear - (thisYear % 100) + digits;
  return year > thisYear + 50 ? year - 100 : year;
}
