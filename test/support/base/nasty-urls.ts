import fc, { type Arbitrary } from 'fast-check';

const hosts = fc.oneof(
  fc.constantFrom(
    ...['api.example.com', 'API.example.com', 'evil.test', 'localhost', 'a_b.test'],
    ...['xn--bcher-kva.de'],
  ),
  fc.constantFrom(
    ...['127.0.0.1', '127.1', '0x7f.1', '0177.0.0.1', '2130706433', '127.0.0.1.', '1.2.3'],
    ...['[::1]', '[::'],
  ),
  fc.constantFrom(
    ...['[::ffff:127.0.0.1]', '[0:0::1]', '[::1]x', 'bücher.de', 'evil。test', 'ⓔvil.test'],
    ...['a%2etest', ''],
  ),
  fc.constantFrom(
    ...["a'b.test", 'a!b', 'a;b', 'a,b', 'a=b', '-a-.test', 'a..b', 'example.com.', '0x'],
    ...['a.0x1', '1e3'],
  ),
);
const glue = fc.constantFrom(
  ...['', '', '/', '\\', '@', ':', '?', '#', '%', '\t', '\n', ' ', '\0', '\u00a0', '\u2028'],
  ...[';', '&'],
);

const mostly = (usual: string, ...others: readonly string[]): Arbitrary<string> =>
  fc.oneof(
    { weight: 6, arbitrary: fc.constant(usual) },
    { weight: 1, arbitrary: fc.constantFrom(...others) },
  );

/** URLs, and what looks like one to some reader. */
export const nastyUrls: Arbitrary<string> = fc
  .tuple(
    mostly('', ' ', '\n', '\u0001'),
    mostly('http', 'HTTP', 'https', 'ht\ttp', 'ws'),
    mostly('://', ':', ':/', ':///', ':\\\\', ':/\\', '//'),
    fc
      .array(fc.tuple(glue, hosts), { minLength: 1, maxLength: 3 })
      .map((parts) =>
        parts.map(([before, host], index) => (index === 0 ? host : `${before}${host}`)).join(''),
      ),
    mostly('', ':80', ':', ':0080', ':65536', ':a', ':80:90'),
    fc.constantFrom(
      ...['', '/', '/a', '?q=1', '#f', '/é', '/a\\b', '/a b', '?@evil.test', '#@evil.test/'],
      ...['/@evil.test'],
    ),
  )
  .map((parts) => parts.join(''));
