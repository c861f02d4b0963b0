/** Offsets of a time zone, in milliseconds east of UTC. Null: no such zone. */
type OffsetAt = (unixMs: number) => number;

const hourMs = 3_600_000;
const fixedOffset = /^([+-]?)(\d\d):(\d\d)$/;

export const isTimeZone = (name: string): boolean => offsetsOf(name) !== null;

/** An IANA name (`Europe/Berlin`) or an offset (`+02:00`). */
export function offsetsOf(name: string): OffsetAt | null {
  const [, sign, hours, minutes] = fixedOffset.exec(name) ?? [];
  if (hours !== undefined && minutes !== undefined) {
    if (Number(hours) > 23 || Number(minutes) > 59) return null;
    const offset = (Number(hours) * 60 + Number(minutes)) * 60_000;
    return () => (sign === '-' ? -offset : offset);
  }
  if (name === 'UTC') return () => 0;
  // Offsets are read above; newer engines take some of them too, as `+0200`.
  if (!/^[A-Za-z][A-Za-z0-9_+/-]*$/.test(name)) return null;
  try {
    return rememberingOffsets(
      new Intl.DateTimeFormat('en-US', {
        ...{ timeZone: name, hourCycle: 'h23', era: 'short' },
        ...{ year: 'numeric', month: 'numeric', day: 'numeric' },
        ...{ hour: 'numeric', minute: 'numeric', second: 'numeric' },
      }),
    );
  } catch {
    return null;
  }
}

/**
 * Intl takes microseconds, so the offset of the last hour that was asked for is kept, where it is the same at
 * both ends: no zone has changed twice within an hour.
 */
function rememberingOffsets(format: Intl.DateTimeFormat): OffsetAt {
  let [fromMs, offset] = [Number.NaN, 0];
  return (unixMs) => {
    const startMs = Math.floor(unixMs / hourMs) * hourMs;
    if (startMs === fromMs) return offset;
    const first = readOffset(format, startMs);
    if (first !== readOffset(format, startMs + hourMs)) return readOffset(format, unixMs);
    [fromMs, offset] = [startMs, first];
    return offset;
  };
}

function readOffset(format: Intl.DateTimeFormat, unixMs: number): number {
  const parts: Partial<Record<Intl.DateTimeFormatPartTypes, string>> = {};
  for (const { type, value } of format.formatToParts(unixMs)) parts[type] = value;
  const number = (type: Intl.DateTimeFormatPartTypes): number => Number(parts[type]);
  const year = parts.era === 'BC' ? 1 - number('year') : number('year');
  const local = new Date(0);
  local.setUTCFullYear(year, number('month') - 1, number('day'));
  local.setUTCHours(number('hour'), number('minute'), number('second'));
  return local.getTime() - Math.floor(unixMs / 1000) * 1000;
}
