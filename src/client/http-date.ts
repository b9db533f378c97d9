const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

// The three forms of RFC 9110, 5.6.7. Date.parse would take a bare number for a year, and the last one for local time.
const FORMS = [
  /^[A-Z][a-z]{2}, (?<day>\d{2}) (?<month>[A-Z][a-z]{2}) (?<year>\d{4}) (?<time>\d{2}:\d{2}:\d{2}) GMT$/,
  /^[A-Z][a-z]{5,8}, (?<day>\d{2})-(?<month>[A-Z][a-z]{2})-(?<year>\d{2}) (?<time>\d{2}:\d{2}:\d{2}) GMT$/,
  /^[A-Z][a-z]{2} (?<month>[A-Z][a-z]{2}) (?<day>[ \d]\d) (?<time>\d{2}:\d{2}:\d{2}) (?<year>\d{4})$/,
];

/** An HTTP-date in any of its three forms, in milliseconds since the epoch; undefined for any other text. */
export function parseHttpDate(text: string, now: number): number | undefined {
  for (const form of FORMS) {
    const parts = form.exec(text)?.groups;
    if (parts !== undefined) return instantOf(parts as Record<Part, string>, now);
  }
  return undefined;
}

type Part = 'day' | 'month' | 'year' | 'time';

function instantOf({ day, month, year, time }: Record<Part, string>, now: number): number | undefined {
  const [hour = 0, minute = 0, second = 0] = time.split(':').map(Number);
  const fullYear = year.length === 4 ? Number(year) : nearYear(Number(year), now);
  const instant = new Date(0);
  instant.setUTCFullYear(fullYear, MONTHS.indexOf(month), Number(day));
  // A leap second is the last one of its minute.
  instant.setUTCHours(hour, minute, Math.min(second, 59));
  // Too many minutes are another hour, too many hours another day.
  const isReal =
    MONTHS.includes(month) &&
    instant.getUTCDate() === Number(day) &&
    instant.getUTCHours() === hour &&
    second <= 60;
  return isReal ? instant.getTime() : undefined;
}

/** Two digits more than 50 years ahead are the last year that ended so (RFC 9110). */
function nearYear(digits: number, now: number): number {
  const thisYear = new Date(now).getUTCFullYear();
  const year = thisYear - (thisYear % 100) + digits;
  return year > thisYear + 50 ? year - 100 : year;
}
