"""What languages call an answer, an option, right, "is" and "or": data, from which patterns, tests and docs are made.

A row is a language: fields with words between commas, in small letters.

    answer, option      the nouns          correct     right or final, before or behind the noun
    is, closing         the copula before and behind a value         article, or, not, but, so, adverb
    choose              "I choose", right before a letter            question    heads a further question
    ending              of nouns in the plural or behind a number
    undecided           says that there is no answer

`JOINED` languages put no blanks between words, `VERB_LAST` the verb behind the value. English has forms of its own
beside its row, in the rules that read it.
"""

from __future__ import annotations

import re
from functools import cache

from .words import words

Language = dict[str, tuple[str, ...]]

FIELDS = words("answer option correct is closing article or not but so adverb choose ending question undecided")

_TABLE = """
ar: answer=الإجابة, الاجابة, الجواب, إجابة; option=الخيار, الاختيار; correct=الصحيحة, الصحيح, النهائية, النهائي
    is=هي, هو; or=و, أو; not=ليس, ليست; undecided=لا يمكن تحديد, معلومات غير كافية, لا شيء مما سبق
bn: answer=উত্তরটি, উত্তর; option=বিকল্প; correct=সঠিক, চূড়ান্ত; is=হলো, হল, হচ্ছে, হবে; or=এবং, বা, অথবা
    so=সুতরাং; undecided=নির্ধারণ করা যায় না, নির্ণয় করা সম্ভব নয়, কোনোটিই নয়
cs: answer=odpověď; option=možnost; correct=správná, konečná, správný; is=je; or=a, nebo; not=není
    undecided=nelze určit, nedostatek informací, žádná z uvedených
da: answer=svaret, svar; option=mulighed; correct=rigtige, korrekte, endelige; is=er; or=og, eller; not=ikke
    undecided=kan ikke bestemmes, ikke nok oplysninger, ingen af ovenstående, enten
de: answer=antwort, lösung; option=option, buchstabe; correct=richtige, korrekte, finale, endgültige, auf die frage
    is=ist, lautet, beträgt, wäre; article=die, der, das; or=und, oder; not=nicht, nie; but=sondern, doch, aber
    nein; so=daher, somit, folglich; adverb=ungefähr; ending=en, n, e; question=frage
    undecided=kann nicht bestimmt werden, nicht bestimmbar, nicht genügend informationen, keine der oben genannten
    keine der antworten, entweder
el: answer=απάντηση; option=επιλογή; correct=σωστή, τελική, ορθή; is=είναι; article=η; or=και, ή; not=δεν; ending=ες
    ος, ου, ων, α, ο, ι; undecided=δεν μπορεί να προσδιοριστεί, ανεπαρκή στοιχεία, κανένα από τα παραπάνω, είτε
en: answer=answer; option=option, choice, letter; correct=final, correct, best, right; is=is, are; article=the
    or=and, or; not=not, never, neither, nor; but=but, rather, instead; so=thus, hence, therefore; adverb=then
    indeed, also, now, approximately, approx, about, around, roughly, exactly, simply, just, clearly, probably
    likely, actually; ending=s; question=question, q, problem, exercise, human, user, instruction, input
    undecided=cannot be determined, can't be determined, could not be determined, cannot be uniquely determined
    cannot determine, not possible to determine, impossible to determine, unable to determine, not determinable
    not enough information, not enough data, insufficient information, insufficient data, none of the above
    none of the given, none of the options, none of these, either
es: answer=respuesta; option=opción, opcion, letra, variante; correct=correcta, final, definitiva, correcto; is=es
    sería, correcta es; article=la, el; or=y, o, e; not=no es, no; but=sino; so=por tanto; adverb=aproximadamente
    ending=s; question=pregunta; undecided=no se puede determinar, información insuficiente
    ninguna de las anteriores
fa: answer=پاسخ, جواب; option=گزینه; correct=صحیح, درست, نهایی; is=برابر است با, است; or=و, یا
    undecided=قابل تعیین نیست, نمی‌توان تعیین کرد, هیچ‌کدام, هیچکدام
fi: answer=vastaus; option=vaihtoehto; correct=oikea, lopullinen; is=on; or=ja, tai; not=ei; but=vaan
    undecided=ei voida määrittää, ei tarpeeksi tietoa, ei mikään edellisistä, joko
fr: answer=réponse, reponse; option=option, lettre; correct=finale, correcte, exacte, définitive, bonne
    à la question; is=est, serait, vaut; article=la, le, l'; or=et, ou; not=pas; but=mais; so=donc; adverb=environ
    approximativement; ending=s; undecided=ne peut pas être déterminé, impossible à déterminer
    informations insuffisantes, aucune de ces réponses
he: answer=התשובה, תשובה; option=אפשרות; correct=הנכונה, הסופית; is=היא, הוא; or=ו, או; not=לא
    undecided=לא ניתן לקבוע, אין מספיק מידע, אף אחת מהתשובות
hi: answer=उत्तर, जवाब; option=विकल्प; correct=सही, अंतिम; is=है; closing=है, हैं; or=और, या
    undecided=निर्धारित नहीं किया जा सकता, अपर्याप्त जानकारी, इनमें से कोई नहीं
hu: answer=válasz; option=lehetőség; correct=helyes, végső; is=az; article=a, az; or=és, vagy; not=nem; but=hanem
    undecided=nem határozható meg, nincs elég információ, egyik sem
id: answer=jawabannya, jawaban; option=pilihan, opsi; correct=benar, yang benar, akhir, akhirnya, tepat, yang tepat
    is=adalah, ialah, yaitu; or=dan, atau; not=bukan; undecided=tidak dapat ditentukan, informasi tidak cukup
    tidak ada yang benar
it: answer=risposta; option=opzione, lettera; correct=corretta, finale, giusta, definitiva; is=è, é; article=la, il
    or=e, o; not=non è, non; so=quindi, dunque; undecided=non può essere determinato, non si può determinare
    non determinabile, informazioni insufficienti, nessuna delle precedenti
ja: answer=答え, 解答, 回答, 正解; option=選択肢; correct=最終, 最終の, 最終的な, 正しい; is=は, が; closing=です
    である, だ, となります, になります; or=と, または, および; choose=選ぶ, 選択; undecided=決定できない
    決定できません, 求められない, 判断できない, 情報が不足, 該当なし
ko: answer=정답, 답변, 답; option=선택지, 보기; correct=최종; is=은, 는, 이, 가; closing=입니다, 이다, 이에요; or=와
    과, 또는, 및; undecided=알 수 없, 결정할 수 없, 정보가 부족, 정답 없음
ms: answer=jawapannya, jawapan; option=pilihan; correct=betul, akhir, tepat; is=ialah, adalah; or=dan, atau
    not=bukan; undecided=tidak dapat ditentukan, maklumat tidak mencukupi, tiada jawapan
nl: answer=antwoord; option=optie; correct=juiste, correcte, uiteindelijke, definitieve; is=is, luidt; article=het
    de; or=en, of; not=niet; but=maar; undecided=kan niet worden bepaald, niet te bepalen, onvoldoende informatie
    geen van bovenstaande
no: answer=svaret, svar; option=alternativ; correct=riktige, endelige; is=er; or=og, eller; not=ikke
    undecided=kan ikke bestemmes, ikke nok informasjon, ingen av alternativene, enten
pl: answer=odpowiedzią, odpowiedź; option=opcja; correct=prawidłowa, poprawna, ostateczna, prawidłową, poprawną
    is=to, jest, brzmi; or=i, lub, oraz; not=nie; ending=ów, y, i, a, e; undecided=nie można określić
    nie da się określić, za mało informacji, żadna z powyższych
pt: answer=resposta; option=opção, opcao, alternativa, letra; correct=correta, final, certa, definitiva; is=é, seria
    article=o, a; or=e, ou; not=não é, não; but=mas; so=portanto; ending=s; undecided=não pode ser determinado
    não é possível determinar, informação insuficiente, nenhuma das anteriores
ro: answer=răspunsul, răspuns; option=opțiunea, varianta; correct=corect, final; is=este; or=și, sau; not=nu
    undecided=nu se poate determina, informații insuficiente, niciuna dintre
ru: answer=ответом, ответа, ответ; option=вариант; correct=правильный, верный, на задачу, на вопрос, задачи
    is=является, это, равен, будет, составляет; or=и, или; not=не; but=а; choose=выбираю; ending=ами, ями, ов, ев
    ей, ам, ям, ах, ях, а, я, ы, и, у, ю, о, е, ь, й; question=вопрос; undecided=невозможно определить
    нельзя определить, недостаточно данных, ни один из, либо
sv: answer=svaret, svar; option=alternativ; correct=rätta, rätt, korrekta, slutliga; is=är; or=och, eller; not=inte
    but=utan; undecided=kan inte bestämmas, otillräcklig information, inget av ovanstående, antingen
sw: answer=jibu; option=chaguo; correct=sahihi, la mwisho, sahihi ni, la mwisho ni; is=ni; or=na, au; not=si
    undecided=haiwezi kujulikana, haiwezi kuamuliwa, hakuna kati ya
ta: answer=பதில், விடை; option=விருப்பம்; correct=சரியான, இறுதி; is=ஆகும்; or=மற்றும், அல்லது
    undecided=தீர்மானிக்க முடியாது, எதுவும் இல்லை
te: answer=సమాధానం, జవాబు; option=ఎంపిక; correct=సరైన, తుది; is=అవుతుంది; or=మరియు, లేదా; undecided=నిర్ణయించలేము
    ఏదీ కాదు
th: answer=คำตอบ; option=ตัวเลือก; correct=ที่ถูกต้อง, สุดท้าย, ที่ถูก, ที่ได้; is=คือ, เป็น, เท่ากับ; or=และ, หรือ
    undecided=ไม่สามารถระบุได้, ไม่สามารถหาได้, ข้อมูลไม่เพียงพอ, ไม่มีข้อใดถูก
tr: answer=cevap, cevabı, yanıt; option=seçenek, şık; correct=doğru, nihai, son; is=şudur; or=ve, veya; not=değil
    undecided=belirlenemez, yeterli bilgi yok, hiçbiri
uk: answer=відповіддю, відповідь; option=варіант; correct=правильна, остаточна; is=є, це, дорівнює; or=і, та, або
    not=не; ending=ами, ями, ів, їв, ей, а, я, и, і, ї, у, ю, о, е, ь; undecided=неможливо визначити
    недостатньо даних, жоден з
ur: answer=جواب; option=آپشن; correct=درست, صحیح, حتمی; is=ہے; or=اور, یا; undecided=تعین نہیں کیا جا سکتا
    معلومات ناکافی, ان میں سے کوئی نہیں
vi: answer=đáp án, câu trả lời, đáp số; option=phương án, lựa chọn; correct=đúng, cuối cùng, chính xác, đúng nhất
    is=là, bằng; or=và, hoặc; choose=chọn, chọn đáp án; undecided=không thể xác định, không đủ thông tin
    không có đáp án nào
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
