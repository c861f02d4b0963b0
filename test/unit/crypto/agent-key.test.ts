import { describe, expect, it } from 'vitest';
import {
  parsePublicKey,
  publicKeyOf,
  renderPrivateKey,
  renderPublicKey,
} from '../../../shared/crypto/agent-key.ts';
import { bytesOf, smallOrderKeys } from '../../support/data/ed25519-edge-cases.ts';
import { rfc8032Vectors } from '../../vectors/rfc8032.ts';

const publicKey = bytesOf(rfc8032Vectors[0].publicKey);

describe('agent keys', () => {
  it('are written as contract §3 says', () => {
    expect(renderPublicKey(publicKey)).toBe('ed25519:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo');
    expect(renderPrivateKey(bytesOf(rfc8032Vectors[0].seed))).toBe(
      'ed25519_private:nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A',
    );
  });

  it('are read back', () => {
    expect(Uint8Array.from(parsePublicKey(renderPublicKey(publicKey)) ?? [])).toEqual(publicKey);
  });

  it('are refused in another form', () => {
    const text = renderPublicKey(publicKey);
    const others = [
      '',
      'ed25519:',
      text.slice(0, -1),
      `${text}A`,
      `${text}=`,
      text.replace('ed25519:', 'ED25519:'),
      text.replace('ed25519:', ''),
      text.replace('_', '/'),
      renderPublicKey(publicKey.subarray(1)),
      renderPublicKey(Uint8Array.from([...publicKey, 0])),
    ];
    for (const other of others) expect(parsePublicKey(other), other).toBeNull();
    for (const other of others)
      expect(publicKeyOf(other.replace('ed25519:', '')), other).toBe(
        other === text.replace('ed25519:', '') ? text : null,
      );
  });

  it.each(smallOrderKeys)('are refused when anyone can sign for them: %s', (hex) => {
    const text = renderPublicKey(bytesOf(hex));
    expect(parsePublicKey(text)).toBeNull();
    expect(publicKeyOf(text.slice('ed25519:'.length))).toBeNull();
  });
});
