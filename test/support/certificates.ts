import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** A certificate and its key, as files. */
export interface CertificateFiles {
  readonly cert: string;
  readonly key: string;
}

/** A CA of a test's own, in a folder, by openssl. */
export interface TestCa {
  /** Its certificate. */
  readonly file: string;
  /** `names`: as in subjectAltName, such as `DNS:localhost` or `IP:127.0.0.1`. */
  issue(name: string, names: readonly string[]): CertificateFiles;
}

const openssl = (...args: readonly string[]): void => {
  execFileSync('openssl', args, { stdio: 'ignore' });
};

export function testCa(folder: string, name = 'ca'): TestCa {
  const at = (file: string) => join(folder, file);
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  const ca = { cert: at(`${name}.crt`), key: at(`${name}.key`) };
  openssl(
    'req',
    '-x509',
    ...newKey,
    '-days',
    '2',
    '-subj',
    `/CN=${name}`,
    '-keyout',
    ca.key,
    '-out',
    ca.cert,
  );
  return {
    file: ca.cert,
    issue: (subject, names) => {
      const issued = { cert: at(`${subject}.crt`), key: at(`${subject}.key`) };
      const request = at(`${subject}.csr`);
      const extensions = at(`${subject}.ext`);
      writeFileSync(extensions, `subjectAltName=${names.join(',')}\n`);
      openssl('req', ...newKey, '-subj', `/CN=${subject}`, '-keyout', issued.key, '-out', request);
      openssl(
        ...[
          'x509',
          '-req',
          '-in',
          request,
          '-CA',
          ca.cert,
          '-CAkey',
          ca.key,
          '-CAcreateserial',
          '-days',
          '2',
        ],
        ...['-extfile', extensions, '-out', issued.cert],
      );
      return issued;
    },
  };
}
