/**
 * Few of a thousand prices share one of so many places. They take at most 230 KB: 64 for the table, the rest
 * for texts, of which the longest have 24 characters.
 */
const places = 4_096;
const values = new Float64Array(places).fill(Number.NaN);
const texts: string[] = new Array(places).fill('');

/**
 * A number as ECMAScript writes it, which for a finite one is how RFC 8785 §3.2.2.3 has it: `${value}`.
 *
 * V8 remembers the texts of numbers too, each under the lowest bits of its halves. For all amounts in
 * quarters these are zero, so that they and the number 0 take the place of one another and are worked out
 * each time, which is 0.25 us of a decision; a thousand prices in cents often share places as well. Here the
 * place comes from the cents (bench row `micro`: numberText). Small whole numbers V8 keeps well by itself.
 */
export function numberText(value: number): string {
  const whole = value | 0;
  // Not of `value`: V8 would work that text out once for both ways, before it knows which one is taken.
  if (whole === value) return `${whole}`;
  const place = (value * 100) & (places - 1);
  if (values[place] === value) return texts[place] ?? '';
  const text = `${value}`;
  values[place] = value;
  texts[place] = text;
  return text;
}
