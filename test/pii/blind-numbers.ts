import type { BlindGroup } from './blind-corpus.ts';

export const blindNumbers: readonly BlindGroup[] = [
  {
    types: ['payment_card'],
    texts: [
      ...['Card 4111 1111 1111 1111 exp 12/27', 'card=4242-4242-4242-4242'],
      ...['{"number":"5555555555554444","cvc":"123"}', 'pan=2223003122003222', 'amex 3782 822463 10005'],
      ...['3782-822463-10005', '6011 1111 1111 1117', '6445 8316 0472 5919', 'Diners 3056 9309 0259 04'],
      ...['36008316047258', '3600 0000 0000 08', 'JCB 3530 1113 3330 0000', 'UnionPay 6200 0000 0000 0005'],
      ...['银行卡号 6222028316047259181', '卡号：6217 0083 1604 7259 185', '4222222222222'],
      ...['visa 4831604725918364023', 'Maestro 6759 6498 2643 8453', 'card 5018 8316 0472 5918'],
      ...['４１１１\u3000１１１１\u3000１１１１\u3000１１１１', '4111\u00a01111\u00a01111\u00a01111'],
      ...['4111–1111–1111–1111', '4111\u20111111\u20111111\u20111111', '𝟒𝟏𝟏𝟏 𝟏𝟏𝟏𝟏 𝟏𝟏𝟏𝟏 𝟏𝟏𝟏𝟏'],
      ...['POST /pay?cc=4012888888881881&exp=1227', 'Kreditkarte: 5412 8316 0472 5910'],
      ...['Carte bancaire n° 4970 8316 0472 5917', 'カード番号 3540-8316-0472-5910'],
      ...['WARN declined pan 5105831604725912 code=51', 'Jane Roe,4532831604725918,12/28,123'],
      ...['<td>4916 8316 0472 5914</td>', 'number:4539831604725911,', '4111111111111111:12:27:123'],
      ...['cards 4532831604725918 5299831604725918', 'Card: 4111 1111 1111 1111 1227 123'],
    ],
  },
  {
    types: ['iban'],
    texts: [
      'IBAN: DE89 3704 0044 0532 0130 00',
      ...['Bitte überweisen auf DE89370400440532013000 (BIC COBADEFFXXX)', 'GB82 WEST 1234 5698 7654 32'],
      ...['{"iban":"FR1420041010050500013M02606"}', 'iban=nl91abna0417164300', 'nl91 abna 0417 1643 00'],
      ...['Cuenta ES91 2100 0418 4502 0005 1332', 'Bonifico su IT60X0542811101000000123456, grazie'],
      ...['CH93 0076 2011 6238 5295 7', 'Konto AT61 1904 3002 3457 3201', 'BE compte: BE68539007547034'],
      ...['NO93 8601 1117 947', 'IBAN\u00a0FI21\u00a01234\u00a05600\u00a00007\u00a085'],
      ...['PL rachunek: PL61 1090 1014 0000 0712 1981 2874', 'MT84MALT011000012345MTLCAST001S'],
      ...['SA: SA03 8000 0000 6080 1016 7519', 'BR1800360305000010009795493C1'],
      ...['IBAN No: TR33 0006 1005 1978 6457 8413 26', 'acct=AE070331234567890123456&amount=5'],
      ...['LI21088100002324013AA;CHF;100.00', 'ＤＥ８９３７０４００４４０５３２０１３０００'],
      ...['IBAN:UA213223130000026007233566001', 'IE29 AIBK 9311 5212 3456 78 is our account'],
      ...['Pay to DK50 0040 0440 1162 43 by Monday', 'Číslo účtu CZ65 0800 0000 1920 0014 5399'],
      ...['XK051212012345678906', '<IBAN>GB82WEST12345698765432</IBAN>'],
      ':59:/DE89370400440532013000\nMAX MUSTERMANN',
    ],
  },
  {
    types: ['us_ssn'],
    texts: [
      ...['SSN: 536-22-8714', 'social security number 536 22 8714', 'ssn=536228714', '{"ssn":"219099999"}'],
      ...['Applicant John Roe, 536-22-8714, born 1980', '536–22–8714', '５３６－２２－８７１４'],
      ...['Social Security #: 078-05-1121', 'employee,ssn\nJ. Roe,401-33-2298'],
      ...['Taxpayer SSN 401332298 filed W-2', 'soc sec no 401 33 2298', '536\u201122\u20118714'],
    ],
  },
  {
    types: ['email', 'iban', 'phone'],
    texts: [
      'Invoice 2024-118\nJan de Vries\nKeizersgracht 12, 1015 CN Amsterdam\nTel. +31 20 123 4567\njan@devries.nl\nIBAN NL91 ABNA 0417 1643 00',
    ],
  },
  {
    types: ['ip_address', 'phone'],
    texts: [
      '{"customer":{"name":"R. Patel","phone":"+44 7700 900456","ip":"81.2.69.142"},"note":"order 1000234567"}',
    ],
  },
  {
    types: ['email', 'ip_address'],
    texts: [
      '2026-11-20 16:05:58,123 [http-8] WARN Auth - user=kim@corp.io from 81.2.69.142:55122 attempt=3 uuid=550e8400-e29b-41d4-a716-446655440000',
    ],
  },
  {
    types: ['payment_card', 'us_ssn'],
    texts: ['Traceback: ValueError: invalid card 4012 8888 8888 1881 for ssn 536-22-8714'],
  },
  {
    types: ['email', 'ip_address', 'phone'],
    texts: ['Signature: Prof. Dr. Aoi Sato | +81-3-1234-5678 | aoi.sato@univ.ac.jp | 203.0.113.45'],
  },
  {
    types: ['email', 'phone'],
    texts: [
      'Impressum: Muster GmbH, Musterstr. 1, 10115 Berlin, Telefon 030 / 123 45 67, Telefax 030 / 123 45 68, E-Mail: post@muster.de, USt-IdNr. DE123456789',
      'Contact us: support@acme.com / 1-888-555-0142 / 24h',
    ],
  },
  {
    types: [],
    texts: [
      ...['4111 1111 1111 1112', '5412831604725913', 'order 9912831604725917', 'ref 1000831604725917'],
      ...['tracking 7712831604725913', 'id 0000831604725919', 'loyalty 7831604725912', '0000 0000 0000 0000'],
      ...['4111 **** **** 1111', '**** **** **** 4242', '411111******1111', '0.4111111111111111'],
      ...['3.4242424242424242', 'trace 41111111-1111-1111-1111-111111111111', '1234567890123456'],
      ...['EAN 5412345678908', 'GTIN 3760123456784 4012345678901', 'snowflake 1125899906842624001'],
      ...['nanos 1732118758123456789', 'micros=1732118758123456', 'tweet 1458293847561029384'],
      ...['SSCC 340123450000000017', 'gs1 (01)09506000134352(17)201225', 'De 89370400440532013001'],
      ...['DE00370400440532013000', 'DE8937040044053201300', 'ZZ89370400440532013000'],
      ...['GB82 is a postcode-like label', 'SKU DE893704XX', 'build GB29NWBK', 'DE123456789 (VAT ID)'],
      ...['BIC COBADEFFXXX', 'token SE4550000000058398257467abcdef', 'license AB12-CD34-EF56-GH78-IJ90'],
      ...['FR7630006000011234567890180', 'SSN last four 8714', '000-12-3456', '666-12-3456', '536-00-8714'],
      ...['536-22-0000', 'part 536-22-87145', '1536-22-8714', 'id 536228714', '2024-11-2014'],
      ...['SSN: ***-**-8714', 'SIRET 732 829 320 00074', 'Codice fiscale RSSMRA85T10A562S', 'NIF 12345678Z'],
      ...['BSN 123456782', 'CPF 123.456.789-09', 'CNPJ 11.222.333/0001-81', 'Personnummer 19811218-9876'],
      ...['PESEL 44051401359', 'ABN 51 824 753 556', 'INN 7707083893 KPP 773601001', '統一編號 12345675'],
      ...['事業者登録番号 T1234567890123', 'Meeting ID: 823 4567 8901 Passcode: 441223'],
      ...['Zoom: https://zoom.us/j/82345678901', 'Flight LH 2024 PNR X7Y8Z9, seat 12A'],
      ...['Ticket 220-1234567890', 'temperature -12.5 to +38.25 °C', 'CPU 3.2 GHz, 16 384 MB, 1 000 000 ops'],
      ...['row 1: 100 200 300 400', 'Q1 2024: 12 345 678 | Q2 2024: 13 456 789'],
      'base64 aGVsbG9Ad29ybGQuY29t',
      'jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U',
      ...['key_live_4eC39HqLyjWDarjtT1zdp7dc', 'ObjectId(507f1f77bcf86cd799439011)'],
      ...['ulid 01ARZ3NDEKTSV4RRFFQ69G5FAV', 'etag "33a64df551425fcc55e4d42a148795d9f25f89d4"'],
      'Content-Range: bytes 1000000000-2000000000/3000000000',
      ...['[1732118758.123456] usb 1-1.4: new device', 'PID 4155 TID 55526 mem 71000000'],
      'x = 4155552671; y = 2125550187;',
    ],
  },
  {
    types: ['payment_card'],
    isArguable: true,
    texts: [
      ...['Мир 2200 8316 0472 5913', 'RuPay 6071 8316 0472 5910', 'Elo 6362 8316 0472 5918'],
      ...['Troy 9792 8316 0472 5912', '4111.1111.1111.1111', '4111  1111  1111  1111'],
      ...['4111\n1111\n1111\n1111', '4111/1111/1111/1111', 'id_4111111111111111_x'],
    ],
  },
  {
    types: ['iban'],
    isArguable: true,
    texts: [
      'IBAN SE45-5000-0000-0583-9825-7466',
      'IBANPT50000201231234567890154',
      'IBAN DE 89 370400440532013000',
    ],
  },
  {
    types: ['us_ssn'],
    isArguable: true,
    texts: ['536.22.8714', '536 22 8714', 'SSN 078-05-1120'],
  },
  {
    types: ['email', 'payment_card', 'phone'],
    isArguable: true,
    texts: ["Hi, I'm Lena (lena@example.de, 0170 1234567). My card is 4111 1111 1111 1111."],
  },
  {
    types: [],
    isArguable: true,
    texts: [
      ...['42 42 42 42 42 42 42 42', '5555-5555-5555-4444-9999', '900-12-3456', 'ssn: 666-45-1234'],
      ...['lot 123-45-6789-A', 'version 536-22-8714-rc1', 'case no. 401-33-2298', 'Aadhaar 2345 6789 0124'],
      'NHS number 943 476 5919',
    ],
  },
];
