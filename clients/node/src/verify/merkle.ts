type Bytes = Uint8Array<ArrayBuffer>;

export async function sha256(...parts: readonly Uint8Array[]): Promise<Bytes> {
  const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return new Uint8Array(await crypto.subtle.digest('SHA-256', all));
}

/** RFC 6962 §2.1.1, from the top down; null: not a path of this entry. */
export async function rootOf(
  leaf: Bytes,
  index: number,
  size: number,
  path: readonly Bytes[],
): Promise<Bytes | null> {
  const sibling = path.at(-1);
  if (size === 1) return sibling === undefined ? leaf : null;
  if (sibling === undefined) return null;
  let half = 1;
  while (half * 2 < size) half *= 2;
  const isLeft = index < half;
  const below = path.slice(0, -1);
  const own = await (isLeft
    ? rootOf(leaf, index, half, below)
    : rootOf(leaf, index - half, size - half, below));
  if (own === null) return null;
  return isLeft ? sha256(Uint8Array.of(1), own, sibling) : sha256(Uint8Array.of(1), sibling, own);
}
