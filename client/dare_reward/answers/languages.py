"""What languages call an answer, an option, right, "is" and "or": data, from which patterns, tests and docs are made.

A row is a language: fields with words between commas, in small letters.

    answer, option      the nouns          correct     right or final, before or behind the noun
    is, closing         the copula before and behind a value         article, or, not, but, so, adverb
    choose              "I choose", right before a letter            question    heads a further question
    ending              of nouns in the plural or behind a number
    undecided           says that there is no answer
    ones, tens          number words from 0 and from 20 on, with `/` between spellings; a blank may be left out
    hundreds, powers    from 100 on, where they are words; powers of ten, each with its exponent, or a value from 20 on
    inner, plus         "and" between tens and ones, and behind a hundred or a power

`JOINED` languages put no blanks between words, `VERB_LAST` the verb behind the value, `UNIT_FIRST` ones before tens,
`POWER_FIRST` the hundred before how many there are. English has forms of its own
beside its row, in the rules that read it.
"""

from __future__ import annotations

import re
from functools import cache

from .words import words

Language = dict[str, tuple[str, ...]]

FIELDS = words(
    "answer option correct is closing article or not but so adverb choose ending question undecided ones tens"
    " hundreds powers inner plus"
)

_TABLE = """
ar: answer=الإجابة, الاجابة, الجواب, إجابة; option=الخيار, الاختيار; correct=الصحيحة, الصحيح, النهائية, النهائي
    is=هي, هو; or=و, أو; not=ليس, ليست; undecided=لا يمكن تحديد, معلومات غير كافية, لا شيء مما سبق
    ones=صفر, واحد/واحدة, اثنان/اثنين/اثنتان/اثنتين, ثلاثة/ثلاث, أربعة/أربع, خمسة/خمس, ستة/ست, سبعة/سبع
    ثمانية/ثماني, تسعة/تسع, عشرة/عشر, أحد عشر/إحدى عشرة, اثنا عشر/اثني عشر/اثنتا عشرة, ثلاثة عشر/ثلاث عشرة
    أربعة عشر/أربع عشرة, خمسة عشر/خمس عشرة, ستة عشر/ست عشرة, سبعة عشر/سبع عشرة, ثمانية عشر/ثماني عشرة
    تسعة عشر/تسع عشرة; tens=عشرون/عشرين, ثلاثون/ثلاثين, أربعون/أربعين, خمسون/خمسين, ستون/ستين, سبعون/سبعين
    ثمانون/ثمانين, تسعون/تسعين; hundreds=مائة/مئة, مائتان/مئتان/مائتين/مئتين, ثلاثمائة/ثلاثمئة, أربعمائة/أربعمئة
    خمسمائة/خمسمئة, ستمائة/ستمئة, سبعمائة/سبعمئة, ثمانمائة/ثمانمئة/ثمانيمائة, تسعمائة/تسعمئة
    powers=ألف/آلاف 3, ألفان/ألفين 2000, مليون/ملايين 6, مليار/مليارات 9; inner=و; plus=و
bn: answer=উত্তরটি, উত্তর; option=বিকল্প; correct=সঠিক, চূড়ান্ত; is=হলো, হল, হচ্ছে, হবে; or=এবং, বা, অথবা
    so=সুতরাং; undecided=নির্ধারণ করা যায় না, নির্ণয় করা সম্ভব নয়, কোনোটিই নয়
    ones=শূন্য, এক, দুই, তিন, চার, পাঁচ, ছয়, সাত, আট, নয়, দশ, এগারো, বারো, তেরো, চৌদ্দ, পনের/পনেরো, ষোল/ষোলো
    সতের/সতেরো, আঠারো, উনিশ, বিশ, একুশ, বাইশ, তেইশ, চব্বিশ, পঁচিশ, ছাব্বিশ, সাতাশ, আটাশ/আঠাশ, উনত্রিশ, ত্রিশ
    একত্রিশ, বত্রিশ, তেত্রিশ, চৌত্রিশ, পঁয়ত্রিশ/পঁইত্রিশ, ছত্রিশ, সাঁইত্রিশ/সাতত্রিশ, আটত্রিশ, উনচল্লিশ, চল্লিশ, একচল্লিশ
    বিয়াল্লিশ, তেতাল্লিশ, চুয়াল্লিশ/চৌচল্লিশ, পঁয়তাল্লিশ, ছেচল্লিশ, সাতচল্লিশ, আটচল্লিশ, উনপঞ্চাশ, পঞ্চাশ, একান্ন
    বাহান্ন/বায়ান্ন, তিপ্পান্ন, চুয়ান্ন, পঞ্চান্ন, ছাপ্পান্ন, সাতান্ন, আটান্ন, উনষাট, ষাট, একষট্টি, বাষট্টি, তেষট্টি, চৌষট্টি
    পঁয়ষট্টি, ছেষট্টি/ছিষট্টি, সাতষট্টি, আটষট্টি, উনসত্তর, সত্তর, একাত্তর, বাহাত্তর, তিয়াত্তর, চুয়াত্তর, পঁচাত্তর, ছিয়াত্তর
    সাতাত্তর, আটাত্তর, উনআশি, আশি, একাশি, বিরাশি, তিরাশি, চুরাশি, পঁচাশি, ছিয়াশি, সাতাশি, আটাশি, উননব্বই, নব্বই
    একানব্বই, বিরানব্বই, তিরানব্বই, চুরানব্বই, পঁচানব্বই, ছিয়ানব্বই, সাতানব্বই, আটানব্বই, নিরানব্বই
    powers=শ/শত/শো 2, হাজার 3, লাখ/লক্ষ 5, মিলিয়ন 6, কোটি 7, বিলিয়ন 9
cs: answer=odpověď; option=možnost; correct=správná, konečná, správný; is=je; or=a, nebo; not=není
    undecided=nelze určit, nedostatek informací, žádná z uvedených
    ones=nula, jeden/jedna/jedno, dva/dvě, tři, čtyři, pět, šest, sedm, osm, devět, deset, jedenáct, dvanáct
    třináct, čtrnáct, patnáct, šestnáct, sedmnáct, osmnáct, devatenáct; tens=dvacet, třicet, čtyřicet, padesát
    šedesát, sedmdesát, osmdesát, devadesát; hundreds=sto, dvě stě, tři sta, čtyři sta, pět set, šest set, sedm set
    osm set, devět set; powers=tisíc/tisíce 3, milion/miliony/milionů 6, miliarda/miliardy/miliard 9
da: answer=svaret, svar; option=mulighed; correct=rigtige, korrekte, endelige; is=er; or=og, eller; not=ikke
    undecided=kan ikke bestemmes, ikke nok oplysninger, ingen af ovenstående, enten
    ones=nul, et/en, to, tre, fire, fem, seks, syv, otte, ni, ti, elleve, tolv, tretten, fjorten, femten
    seksten, sytten, atten, nitten; tens=tyve, tredive, fyrre/fyrretyve, halvtreds, tres/treds, halvfjerds, firs
    halvfems; powers=hundrede 2, tusind/tusinde 3, million/millioner 6, milliard/milliarder 9; inner=og; plus=og
de: answer=antwort, lösung; option=option, buchstabe; correct=richtige, korrekte, finale, endgültige, auf die frage
    is=ist, lautet, beträgt, wäre; article=die, der, das; or=und, oder; not=nicht, nie; but=sondern, doch, aber
    nein; so=daher, somit, folglich; adverb=ungefähr; ending=en, n, e; question=frage
    undecided=kann nicht bestimmt werden, nicht bestimmbar, nicht genügend informationen, keine der oben genannten
    keine der antworten, entweder
    ones=null, ein/eins/eine/einen, zwei, drei, vier, fünf, sechs, sieben, acht, neun, zehn, elf, zwölf
    dreizehn, vierzehn, fünfzehn, sechzehn, siebzehn, achtzehn, neunzehn; tens=zwanzig, dreißig/dreissig, vierzig
    fünfzig, sechzig, siebzig, achtzig, neunzig; powers=hundert 2, tausend 3, million/millionen 6
    milliarde/milliarden 9, billionen 12; inner=und; plus=und
el: answer=απάντηση; option=επιλογή; correct=σωστή, τελική, ορθή; is=είναι; article=η; or=και, ή; not=δεν; ending=ες
    ος, ου, ων, α, ο, ι; undecided=δεν μπορεί να προσδιοριστεί, ανεπαρκή στοιχεία, κανένα από τα παραπάνω, είτε
    ones=μηδέν, ένα/ένας/μία/μια, δύο/δυο, τρία/τρεις, τέσσερα/τέσσερις, πέντε, έξι, επτά/εφτά, οκτώ/οχτώ
    εννέα/εννιά, δέκα, έντεκα, δώδεκα, δεκατρία/δεκατρείς, δεκατέσσερα/δεκατέσσερις, δεκαπέντε, δεκαέξι
    δεκαεπτά/δεκαεφτά, δεκαοκτώ/δεκαοχτώ, δεκαεννέα/δεκαεννιά; tens=είκοσι, τριάντα, σαράντα, πενήντα, εξήντα
    εβδομήντα, ογδόντα, ενενήντα; hundreds=εκατό/εκατόν, διακόσια/διακόσιες/διακόσιοι
    τριακόσια/τριακόσιες/τριακόσιοι, τετρακόσια/τετρακόσιες, πεντακόσια/πεντακόσιες, εξακόσια/εξακόσιες
    επτακόσια/εφτακόσια/επτακόσιες, οκτακόσια/οχτακόσια/οκτακόσιες, εννιακόσια/εννιακόσιες
    powers=χίλια/χίλιες/χιλιάδες 3, εκατομμύριο/εκατομμύρια 6, δισεκατομμύριο/δισεκατομμύρια 9
en: answer=answer; option=option, choice, letter; correct=final, correct, best, right; is=is, are; article=the
    or=and, or; not=not, never, neither, nor; but=but, rather, instead; so=thus, hence, therefore; adverb=then
    indeed, also, now, approximately, approx, about, around, roughly, exactly, simply, just, clearly, probably
    likely, actually; ending=s; question=question, q, problem, exercise, human, user, instruction, input
    undecided=cannot be determined, can't be determined, could not be determined, cannot be uniquely determined
    cannot determine, not possible to determine, impossible to determine, unable to determine, not determinable
    not enough information, not enough data, insufficient information, insufficient data, none of the above
    none of the given, none of the options, none of these, either
    ones=zero, one, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve, thirteen, fourteen
    fifteen, sixteen, seventeen, eighteen, nineteen; tens=twenty, thirty, forty, fifty, sixty, seventy, eighty
    ninety; powers=hundred 2, thousand 3, lakh/lakhs 5, million/millions 6, crore/crores 7, billion/billions 9
    trillion/trillions 12; plus=and
es: answer=respuesta; option=opción, opcion, letra, variante; correct=correcta, final, definitiva, correcto; is=es
    sería, correcta es; article=la, el; or=y, o, e; not=no es, no; but=sino; so=por tanto; adverb=aproximadamente
    ending=s; question=pregunta; undecided=no se puede determinar, información insuficiente
    ninguna de las anteriores
    ones=cero, uno/un/una/ún, dos/dós, tres/trés, cuatro, cinco, seis/séis, siete, ocho, nueve, diez, once
    doce, trece, catorce, quince, dieciséis/dieciseis, diecisiete, dieciocho, diecinueve; tens=veinte/veinti
    treinta, cuarenta, cincuenta, sesenta, setenta, ochenta, noventa; hundreds=cien/ciento, doscientos/doscientas
    trescientos/trescientas, cuatrocientos/cuatrocientas, quinientos/quinientas, seiscientos/seiscientas
    setecientos/setecientas, ochocientos/ochocientas, novecientos/novecientas; powers=mil 3, millón/millones 6
    billón/billones 12; inner=y
fa: answer=پاسخ, جواب; option=گزینه; correct=صحیح, درست, نهایی; is=برابر است با, است; or=و, یا
    undecided=قابل تعیین نیست, نمی‌توان تعیین کرد, هیچ‌کدام, هیچکدام
    ones=صفر, یک, دو, سه, چهار, پنج, شش, هفت, هشت, نه, ده, یازده, دوازده, سیزده, چهارده, پانزده, شانزده
    هفده, هجده, نوزده; tens=بیست, سی, چهل, پنجاه, شصت, هفتاد, هشتاد, نود; hundreds=صد, دویست, سیصد, چهارصد, پانصد
    ششصد, هفتصد, هشتصد, نهصد; powers=هزار 3, میلیون 6, میلیارد 9; inner=و; plus=و
fi: answer=vastaus; option=vaihtoehto; correct=oikea, lopullinen; is=on; or=ja, tai; not=ei; but=vaan
    undecided=ei voida määrittää, ei tarpeeksi tietoa, ei mikään edellisistä, joko
    ones=nolla, yksi, kaksi, kolme, neljä, viisi, kuusi, seitsemän, kahdeksan, yhdeksän, kymmenen, yksitoista
    kaksitoista, kolmetoista, neljätoista, viisitoista, kuusitoista, seitsemäntoista, kahdeksantoista
    yhdeksäntoista; tens=kaksikymmentä, kolmekymmentä, neljäkymmentä, viisikymmentä, kuusikymmentä
    seitsemänkymmentä, kahdeksankymmentä, yhdeksänkymmentä; powers=sata/sataa 2, tuhat/tuhatta 3
    miljoona/miljoonaa 6, miljardi/miljardia 9
fr: answer=réponse, reponse; option=option, lettre; correct=finale, correcte, exacte, définitive, bonne
    à la question; is=est, serait, vaut; article=la, le, l'; or=et, ou; not=pas; but=mais; so=donc; adverb=environ
    approximativement; ending=s; undecided=ne peut pas être déterminé, impossible à déterminer
    informations insuffisantes, aucune de ces réponses
    ones=zéro, un/une, deux, trois, quatre, cinq, six, sept, huit, neuf, dix, onze, douze, treize, quatorze
    quinze, seize, dix sept, dix huit, dix neuf; tens=vingt, trente, quarante, cinquante, soixante
    soixante dix/septante, quatre vingt/quatre vingts/huitante, quatre vingt dix/nonante; powers=cent/cents 2
    mille 3, million/millions 6, milliard/milliards 9; inner=et
he: answer=התשובה, תשובה; option=אפשרות; correct=הנכונה, הסופית; is=היא, הוא; or=ו, או; not=לא
    undecided=לא ניתן לקבוע, אין מספיק מידע, אף אחת מהתשובות
    ones=אפס, אחת/אחד, שתיים/שניים/שתי/שני/שתים, שלוש/שלושה/שלושת, ארבע/ארבעה/ארבעת, חמש/חמישה/חמשת
    שש/שישה/ששת, שבע/שבעה/שבעת, שמונה/שמונת, תשע/תשעה/תשעת, עשר/עשרה/עשרת, אחת עשרה/אחד עשר
    שתים עשרה/שנים עשר/שתיים עשרה, שלוש עשרה/שלושה עשר, ארבע עשרה/ארבעה עשר, חמש עשרה/חמישה עשר, שש עשרה/שישה עשר
    שבע עשרה/שבעה עשר, שמונה עשרה/שמונה עשר, תשע עשרה/תשעה עשר; tens=עשרים, שלושים, ארבעים, חמישים, שישים, שבעים
    שמונים, תשעים; powers=מאה/מאות 2, מאתיים 200, אלף/אלפים 3, אלפיים 2000, מיליון 6, מיליארד 9; inner=ו; plus=ו
hi: answer=उत्तर, जवाब; option=विकल्प; correct=सही, अंतिम; is=है; closing=है, हैं; or=और, या
    undecided=निर्धारित नहीं किया जा सकता, अपर्याप्त जानकारी, इनमें से कोई नहीं
    ones=शून्य, एक, दो, तीन, चार, पाँच/पांच, छह/छः/छे, सात, आठ, नौ, दस, ग्यारह, बारह, तेरह, चौदह, पंद्रह/पन्द्रह, सोलह, सत्रह
    अठारह, उन्नीस, बीस, इक्कीस, बाईस, तेईस, चौबीस, पच्चीस, छब्बीस, सत्ताईस, अट्ठाईस/अठाईस, उनतीस, तीस, इकतीस/इकत्तीस
    बत्तीस, तैंतीस, चौंतीस, पैंतीस, छत्तीस, सैंतीस, अड़तीस, उनतालीस, चालीस, इकतालीस, बयालीस, तैंतालीस, चौवालीस/चवालीस
    पैंतालीस, छियालीस, सैंतालीस, अड़तालीस, उनचास, पचास, इक्यावन, बावन, तिरेपन/तिरपन, चौवन, पचपन, छप्पन, सत्तावन, अट्ठावन
    उनसठ, साठ, इकसठ, बासठ, तिरेसठ/तिरसठ, चौंसठ, पैंसठ, छियासठ, सड़सठ, अड़सठ, उनहत्तर, सत्तर, इकहत्तर, बहत्तर, तिहत्तर
    चौहत्तर, पचहत्तर, छिहत्तर, सतहत्तर, अठहत्तर, उनासी/उन्यासी, अस्सी, इक्यासी, बयासी, तिरासी, चौरासी, पचासी, छियासी
    सत्तासी/सतासी, अट्ठासी/अठासी, नवासी, नब्बे, इक्यानबे/इक्यानवे, बानबे/बानवे, तिरानबे/तिरानवे, चौरानबे/चौरानवे
    पंचानबे/पंचानवे, छियानबे/छियानवे, सत्तानबे/सत्तानवे, अट्ठानबे/अट्ठानवे, निन्यानबे/निन्यानवे; powers=सौ 2, हज़ार/हजार 3, लाख 5
    मिलियन 6, करोड़ 7, बिलियन 9, अरब 9
hu: answer=válasz; option=lehetőség; correct=helyes, végső; is=az; article=a, az; or=és, vagy; not=nem; but=hanem
    undecided=nem határozható meg, nincs elég információ, egyik sem
    ones=nulla, egy, kettő/két, három, négy, öt, hat, hét, nyolc, kilenc, tíz, tizenegy, tizenkettő/tizenkét
    tizenhárom, tizennégy, tizenöt, tizenhat, tizenhét, tizennyolc, tizenkilenc; tens=húsz/huszon, harminc, negyven
    ötven, hatvan, hetven, nyolcvan, kilencven; powers=száz 2, ezer 3, millió 6, milliárd 9
id: answer=jawabannya, jawaban; option=pilihan, opsi; correct=benar, yang benar, akhir, akhirnya, tepat, yang tepat
    is=adalah, ialah, yaitu; or=dan, atau; not=bukan; undecided=tidak dapat ditentukan, informasi tidak cukup
    tidak ada yang benar
    ones=nol/kosong/sifar, satu, dua, tiga, empat, lima, enam, tujuh, delapan/lapan, sembilan, sepuluh
    sebelas, dua belas, tiga belas, empat belas, lima belas, enam belas, tujuh belas, delapan belas/lapan belas
    sembilan belas; tens=dua puluh, tiga puluh, empat puluh, lima puluh, enam puluh, tujuh puluh
    delapan puluh/lapan puluh, sembilan puluh; powers=ratus/seratus 2, ribu/seribu 3, juta 6, miliar 9, triliun 12
it: answer=risposta; option=opzione, lettera; correct=corretta, finale, giusta, definitiva; is=è, é; article=la, il
    or=e, o; not=non è, non; so=quindi, dunque; undecided=non può essere determinato, non si può determinare
    non determinabile, informazioni insufficienti, nessuna delle precedenti
    ones=zero, uno/un/una, due, tre/tré, quattro, cinque, sei, sette, otto, nove, dieci, undici, dodici, tredici
    quattordici, quindici, sedici, diciassette, diciotto, diciannove; tens=venti/vent, trenta/trent
    quaranta/quarant, cinquanta/cinquant, sessanta/sessant, settanta/settant, ottanta/ottant, novanta/novant
    powers=cento/cent 2, mille/mila 3, milione/milioni 6, miliardo/miliardi 9
ja: answer=答え, 解答, 回答, 正解; option=選択肢; correct=最終, 最終の, 最終的な, 正しい; is=は, が; closing=です
    である, だ, となります, になります; or=と, または, および; choose=選ぶ, 選択; undecided=決定できない
    決定できません, 求められない, 判断できない, 情報が不足, 該当なし
ko: answer=정답, 답변, 답; option=선택지, 보기; correct=최종; is=은, 는, 이, 가; closing=입니다, 이다, 이에요; or=와
    과, 또는, 및; undecided=알 수 없, 결정할 수 없, 정보가 부족, 정답 없음
ms: answer=jawapannya, jawapan; option=pilihan; correct=betul, akhir, tepat; is=ialah, adalah; or=dan, atau
    not=bukan; undecided=tidak dapat ditentukan, maklumat tidak mencukupi, tiada jawapan
    powers=bilion 9
nl: answer=antwoord; option=optie; correct=juiste, correcte, uiteindelijke, definitieve; is=is, luidt; article=het
    de; or=en, of; not=niet; but=maar; undecided=kan niet worden bepaald, niet te bepalen, onvoldoende informatie
    geen van bovenstaande
    ones=nul, een/één, twee, drie, vier, vijf, zes, zeven, acht, negen, tien, elf, twaalf, dertien, veertien
    vijftien, zestien, zeventien, achttien, negentien; tens=twintig, dertig, veertig, vijftig, zestig, zeventig
    tachtig, negentig; powers=honderd 2, duizend 3, miljoen 6, miljard 9; inner=en, ën; plus=en
no: answer=svaret, svar; option=alternativ; correct=riktige, endelige; is=er; or=og, eller; not=ikke
    undecided=kan ikke bestemmes, ikke nok informasjon, ingen av alternativene, enten
    ones=null, en/ett/én, to, tre, fire, fem, seks, sju/syv, åtte, ni, ti, elleve, tolv, tretten, fjorten
    femten, seksten, sytten, atten, nitten; tens=tjue, tretti, førti, femti, seksti, sytti, åtti, nitti
    powers=hundre 2, tusen 3, million/millioner 6, milliard/milliarder 9; plus=og
pl: answer=odpowiedzią, odpowiedź; option=opcja; correct=prawidłowa, poprawna, ostateczna, prawidłową, poprawną
    is=to, jest, brzmi; or=i, lub, oraz; not=nie; ending=ów, y, i, a, e; undecided=nie można określić
    nie da się określić, za mało informacji, żadna z powyższych
    ones=zero, jeden/jedna/jedno, dwa/dwie, trzy, cztery, pięć, sześć, siedem, osiem, dziewięć, dziesięć
    jedenaście, dwanaście, trzynaście, czternaście, piętnaście, szesnaście, siedemnaście, osiemnaście
    dziewiętnaście; tens=dwadzieścia, trzydzieści, czterdzieści, pięćdziesiąt, sześćdziesiąt, siedemdziesiąt
    osiemdziesiąt, dziewięćdziesiąt; hundreds=sto, dwieście, trzysta, czterysta, pięćset, sześćset, siedemset
    osiemset, dziewięćset; powers=tysiąc/tysiące/tysięcy 3, milion/miliony/milionów 6, miliard/miliardy/miliardów 9
pt: answer=resposta; option=opção, opcao, alternativa, letra; correct=correta, final, certa, definitiva; is=é, seria
    article=o, a; or=e, ou; not=não é, não; but=mas; so=portanto; ending=s; undecided=não pode ser determinado
    não é possível determinar, informação insuficiente, nenhuma das anteriores
    ones=zero, um/uma, dois/duas, três, quatro, cinco, seis, sete, oito, nove, dez, onze, doze, treze
    quatorze/catorze, quinze, dezesseis/dezasseis, dezessete/dezassete, dezoito, dezenove/dezanove; tens=vinte
    trinta, quarenta, cinquenta, sessenta, setenta, oitenta, noventa; hundreds=cem/cento, duzentos/duzentas
    trezentos/trezentas, quatrocentos/quatrocentas, quinhentos/quinhentas, seiscentos/seiscentas
    setecentos/setecentas, oitocentos/oitocentas, novecentos/novecentas; powers=mil 3, milhão/milhões 6
    bilhão/bilhões 9, trilhão/trilhões 12; inner=e; plus=e
ro: answer=răspunsul, răspuns; option=opțiunea, varianta; correct=corect, final; is=este; or=și, sau; not=nu
    undecided=nu se poate determina, informații insuficiente, niciuna dintre
    ones=zero, unu/una/un, doi/două, trei, patru, cinci, șase, șapte, opt, nouă, zece, unsprezece
    doisprezece/douăsprezece, treisprezece, paisprezece, cincisprezece, șaisprezece, șaptesprezece, optsprezece
    nouăsprezece; tens=douăzeci, treizeci, patruzeci, cincizeci, șaizeci, șaptezeci, optzeci, nouăzeci
    powers=sută/sute/o sută 2, mie/mii/o mie 3, milion/milioane 6, miliard/miliarde 9; inner=și
ru: answer=ответом, ответа, ответ; option=вариант; correct=правильный, верный, на задачу, на вопрос, задачи
    is=является, это, равен, будет, составляет; or=и, или; not=не; but=а; choose=выбираю; ending=ами, ями, ов, ев
    ей, ам, ям, ах, ях, а, я, ы, и, у, ю, о, е, ь, й; question=вопрос; undecided=невозможно определить
    нельзя определить, недостаточно данных, ни один из, либо
    ones=ноль/нуль, один/одна/одно, два/две, три, четыре, пять, шесть, семь, восемь, девять, десять, одиннадцать
    двенадцать, тринадцать, четырнадцать, пятнадцать, шестнадцать, семнадцать, восемнадцать, девятнадцать
    tens=двадцать, тридцать, сорок, пятьдесят, шестьдесят, семьдесят, восемьдесят, девяносто; hundreds=сто, двести
    триста, четыреста, пятьсот, шестьсот, семьсот, восемьсот, девятьсот; powers=тысяча/тысячи/тысяч 3
    миллион/миллиона/миллионов 6, миллиард/миллиарда/миллиардов 9
sv: answer=svaret, svar; option=alternativ; correct=rätta, rätt, korrekta, slutliga; is=är; or=och, eller; not=inte
    but=utan; undecided=kan inte bestämmas, otillräcklig information, inget av ovanstående, antingen
    ones=noll, ett/en, två, tre, fyra, fem, sex, sju, åtta, nio, tio, elva, tolv, tretton, fjorton, femton
    sexton, sjutton, arton, nitton; tens=tjugo, trettio, fyrtio/förtio, femtio, sextio, sjuttio, åttio, nittio
    powers=hundra 2, tusen 3, miljon/miljoner 6, miljard/miljarder 9; plus=och
sw: answer=jibu; option=chaguo; correct=sahihi, la mwisho, sahihi ni, la mwisho ni; is=ni; or=na, au; not=si
    undecided=haiwezi kujulikana, haiwezi kuamuliwa, hakuna kati ya
    ones=sifuri, moja, mbili, tatu, nne, tano, sita, saba, nane, tisa, kumi, kumi na moja, kumi na mbili
    kumi na tatu, kumi na nne, kumi na tano, kumi na sita, kumi na saba, kumi na nane, kumi na tisa; tens=ishirini
    thelathini, arobaini, hamsini, sitini, sabini, themanini, tisini; powers=mia 2, elfu 3; inner=na; plus=na
ta: answer=பதில், விடை; option=விருப்பம்; correct=சரியான, இறுதி; is=ஆகும்; or=மற்றும், அல்லது
    undecided=தீர்மானிக்க முடியாது, எதுவும் இல்லை
    powers=ஆயிரம் 3, லட்சம் 5, மில்லியன் 6, கோடி 7
te: answer=సమాధానం, జవాబు; option=ఎంపిక; correct=సరైన, తుది; is=అవుతుంది; or=మరియు, లేదా; undecided=నిర్ణయించలేము
    ఏదీ కాదు
    ones=సున్న/సున్నా, ఒకటి/ఒక, రెండు, మూడు, నాలుగు, ఐదు/అయిదు, ఆరు, ఏడు, ఎనిమిది, తొమ్మిది, పది, పదకొండు, పన్నెండు
    పదమూడు, పద్నాలుగు, పదిహేను, పదహారు, పదిహేడు, పద్దెనిమిది/పధ్ధెనిమిది, పంతొమ్మిది; tens=ఇరవై, ముప్పై, నలభై, యాభై
    అరవై, డెబ్బై, ఎనభై, తొంభై; powers=వంద/వందల/వందలు 2, వేయి/వెయ్యి/వేల/వేలు/వేయిల 3, లక్ష/లక్షల/లక్షలు 5, కోటి/కోట్ల/కోట్లు 7
th: answer=คำตอบ; option=ตัวเลือก; correct=ที่ถูกต้อง, สุดท้าย, ที่ถูก, ที่ได้; is=คือ, เป็น, เท่ากับ; or=และ, หรือ
    undecided=ไม่สามารถระบุได้, ไม่สามารถหาได้, ข้อมูลไม่เพียงพอ, ไม่มีข้อใดถูก
    ones=ศูนย์, หนึ่ง/เอ็ด, สอง, สาม, สี่, ห้า, หก, เจ็ด, แปด, เก้า; tens=ยี่สิบ; powers=สิบ 1, ร้อย 2, พัน 3, หมื่น 4
    แสน 5, ล้าน 6
tr: answer=cevap, cevabı, yanıt; option=seçenek, şık; correct=doğru, nihai, son; is=şudur; or=ve, veya; not=değil
    undecided=belirlenemez, yeterli bilgi yok, hiçbiri
    ones=sıfır, bir, iki, üç, dört, beş, altı, yedi, sekiz, dokuz, on, on bir, on iki, on üç, on dört, on beş
    on altı, on yedi, on sekiz, on dokuz; tens=yirmi, otuz, kırk, elli, altmış, yetmiş, seksen, doksan
    powers=yüz 2, bin 3, milyon 6, milyar 9
uk: answer=відповіддю, відповідь; option=варіант; correct=правильна, остаточна; is=є, це, дорівнює; or=і, та, або
    not=не; ending=ами, ями, ів, їв, ей, а, я, и, і, ї, у, ю, о, е, ь; undecided=неможливо визначити
    недостатньо даних, жоден з
    ones=нуль, один/одна/одне, два/дві, три, чотири, п'ять, шість, сім, вісім, дев'ять, десять, одинадцять
    дванадцять, тринадцять, чотирнадцять, п'ятнадцять, шістнадцять, сімнадцять, вісімнадцять, дев'ятнадцять
    tens=двадцять, тридцять, сорок, п'ятдесят, шістдесят, сімдесят, вісімдесят, дев'яносто; hundreds=сто, двісті
    триста, чотириста, п'ятсот, шістсот, сімсот, вісімсот, дев'ятсот; powers=тисяча/тисячі/тисяч 3
    мільйон/мільйони/мільйонів 6, мільярд/мільярди/мільярдів 9
ur: answer=جواب; option=آپشن; correct=درست, صحیح, حتمی; is=ہے; or=اور, یا; undecided=تعین نہیں کیا جا سکتا
    معلومات ناکافی, ان میں سے کوئی نہیں
    powers=ہزار 3, لاکھ 5, ملین 6, کروڑ 7, ارب 9
vi: answer=đáp án, câu trả lời, đáp số; option=phương án, lựa chọn; correct=đúng, cuối cùng, chính xác, đúng nhất
    is=là, bằng; or=và, hoặc; choose=chọn, chọn đáp án; undecided=không thể xác định, không đủ thông tin
    không có đáp án nào
    ones=không, một/mốt, hai, ba, bốn/tư, năm/lăm, sáu, bảy, tám, chín; powers=mười/mươi 1, trăm 2, nghìn/ngàn 3
    triệu 6, tỷ/tỉ 9; plus=lẻ, linh
yo: answer=ìdáhùn, idahun; option=àṣàyàn; correct=tó tọ́, ìkẹyìn; is=ni, jẹ́; or=àti, tàbí; undecided=kò ṣe é pinnu
    kò sí èyíkéyìí
zh: answer=答案; option=选项, 選項, 选择, 選擇; correct=最终, 正确, 最終, 正確, 标准, 参考; is=应该是, 應該是, 应是
    應是, 应为, 應為, 就是, 便是, 也是, 是, 为, 為, 选, 選, 等于; or=和, 或, 与, 或者; but=错, 更正, 重新; so=则
    因此, 所以; choose=选, 选择, 选项, 選, 選擇, 選項; question=问题, 题目; undecided=无法确定, 不能确定, 无法判断
    無法確定, 条件不足, 信息不足, 以上都不是, 以上都不对
"""


def _language(row: str) -> Language:
    said = dict(_FIELD.findall(row.replace("\n    ", ", ")))
    return {field: tuple(w for word in said.get(field, "").split(",") if (w := word.strip(" ;"))) for field in FIELDS}


_FIELD = re.compile(r"(\w+)=([^=]*)(?=[,;] \w+=|\Z)")
LANGUAGES = {row[:2]: _language(row[4:]) for row in re.split(r"\n(?! )", _TABLE.strip())}
JOINED = frozenset({"ja", "ko", "th", "zh"})
UNIT_FIRST, POWER_FIRST = frozenset({"ar", "da", "de", "nl"}), frozenset({"sw"})
VERB_LAST = frozenset({"fa", "hi", "ta", "te", "ur"})


@cache
def every(*fields: str) -> tuple[str, ...]:
    """The words of all languages for these fields, each once, longer ones first."""
    words = {word for language in LANGUAGES.values() for field in fields for word in language[field]}
    return tuple(sorted(words, key=lambda word: (-len(word), word)))


def alternatives(*fields: str) -> str:
    """The words of fields as a part of a pattern: a word ends where its letters do, if its language has blanks."""
    joined = {word for code in JOINED for field in fields for word in LANGUAGES[code][field]}
    spaced = "|".join(word for word in every(*fields) if word not in joined)
    return "|".join([rf"(?:{spaced})(?![^\W\d_])", *sorted(joined, key=len, reverse=True)])


def stem(noun: str) -> str:
    """`noun` in small letters without its endings: "apples" and "apple", "рублей" and "рубля" have one stem."""
    said = noun.lower()
    while end := next((end for end in every("ending") if said.endswith(end) and len(said) - len(end) > 2), ""):
        said = said.removesuffix(end)
    return said
