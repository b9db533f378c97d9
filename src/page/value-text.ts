/** A value of `parseJson` as text: strings as they are, and numbers with every digit. */
export function valueText(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value);
  if (Array.isArray(value)) return `[${value.map(valueText).join(', ')}]`;
  if ('isLosslessNumber' in value && 'value' in value) return valueText(value.value);
  const members = Object.entries(value).map(([name, each]) => `${name}: ${valueText(each)}`);
  return `{${members.join(', ')}}`;
}
