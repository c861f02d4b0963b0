/**
 * Cuts bytes that arrive in pieces into lines. A line is null where it is not UTF-8, is longer than
 * `lineBytesMax`, or is the last one and lacks its newline; a carriage return is part of the line. Holds at
 * most one line; returns nothing after the null for a line that is too long.
 */
export interface LineSplitter {
  push(piece: Uint8Array): (string | null)[];
  /** After the last piece: null for an unfinished line. */
  end(): (string | null)[];
}

const newline = 0x0a;

export function lineSplitter(options: { readonly lineBytesMax: number }): LineSplitter {
  const { lineBytesMax } = options;
  // Keeps a byte order mark in the text: no line of ours begins with one.
  const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  let pending: Uint8Array[] = [];
  let pendingBytes = 0;
  let isOverrun = false;

  function decode(bytes: Uint8Array): string | null {
    try {
      return utf8.decode(bytes);
    } catch {
      return null;
    }
  }

  function takePending(rest: Uint8Array): Uint8Array {
    if (pending.length === 0) return rest;
    const whole = Buffer.concat([...pending, rest]);
    pending = [];
    pendingBytes = 0;
    return whole;
  }

  return {
    push: (piece) => {
      const lines: (string | null)[] = [];
      let start = 0;
      while (!isOverrun) {
        const stop = piece.indexOf(newline, start);
        const part = piece.subarray(start, stop < 0 ? piece.length : stop);
        isOverrun = pendingBytes + part.length > lineBytesMax;
        if (isOverrun) {
          lines.push(null);
        } else if (stop < 0) {
          // The caller may reuse its buffer.
          if (part.length > 0) pending.push(Uint8Array.from(part));
          pendingBytes += part.length;
          break;
        } else {
          lines.push(decode(takePending(part)));
          start = stop + 1;
        }
      }
      return lines;
    },
    end: () => (pendingBytes > 0 && !isOverrun ? [null] : []),
  };
}
