"""Where readers end: how deep an answer may nest, and how much work it may be."""

from rows import each

from dare_reward.answers import canonical, grade

# how often it may nest and what is too often; what nests, and what stands in the middle
NESTED = {
    (5, 16): [(r"(\begin{pmatrix}%s\end{pmatrix})", "x"), (r"((0,1)\cup %s)", "[2,3]"), (r"x\in \{%s\}", "1")],
    (10, 16): [
        ("(%s,1)", "x"), ("(1,%s)", "x"), ("[%s,1,2]", "x"), ("[%s]", "x"), (r"\{%s,1\}", "x"), (r"\langle %s,1\rangle", "x"),
        (r"\begin{pmatrix}%s&1\end{pmatrix}", "x"), (r"\begin{cases}%s\\y=1\end{cases}", "x=1"), (r"\begin{cases}%s& x>0\\1&x<0\end{cases}", "x"),
        (r"\begin{cases}1& %s\\1&x<0\end{cases}", "x>0"), (r"\begin{aligned}%s\end{aligned}", "x=1"), ("(%s)", "x>1"), ("(x>0, %s)", "x<1"),
    ],
    (4, 36): [(r"\sin^{%s} x", "1")],
    (15, 36): [("1^{1^%s}", "1"), (r"\cos{0}x^{%s}", "1")],
    (25, 36): [
        (r"\frac{%s}{2}", "x"), (r"\frac{1}{%s+2}", "x"), (r"\binom{%s}{1}", "5"), ("1^{%s}", "1"), ("1^-%s", "1"), ("1^+%s", "1"), ("1^{%s!}", "1"),
        ("(|%s|)", "x"), (r"\sqrt{%s}", "x"), (r"\sin -%s", "x"), (r"\log_{%s} x", "2"),
    ],
    (40, 66): [
        ("(%s)", "x"), ("{%s+1}", "x"), ("2[%s+1]", "x"), ("1^%s", "1"), ("(%s)^1", "x"), (r"\lfloor %s\rfloor", "2.5"), (r"\lceil %s\rceil", "2.5"), (r"\sqrt %s", "x"),
        ("sqrt(%s)", "x"), (r"\sqrt[%s]{1}", "1"), ("f(%s)", "x"), ("f(1,%s)", "x"), ("C(%s,1)", "5"), (r"\sin(%s)", "x"), (r"\sin{%s}", "x"), (r"\sin %s", "x"),
        (r"{%s\choose 1}", "5"), (r"{5\choose %s}", "2"), (r"\max(%s,1)", "2"), ("2*(%s)", "x"), ("2/(%s)", "x"), ("(-%s)", "x"), ("x/%s", "x"),
    ],
}  # fmt: skip


@each(("outer", "inner", "fine", "often"), [(*row, *depths) for depths, rows in NESTED.items() for row in rows])
def test_nesting_is_bounded(outer, inner, fine, often):
    """Deep nesting is read; deeper than any answer nests, it is compared as it is written."""
    levels = [inner]
    for _ in range(often):
        levels.append(outer.replace("%s", levels[-1]))
    assert canonical(levels[fine]).kind in {"exact", "structured", "fingerprint"}
    assert canonical(levels[often]).kind in {"opaque", "text"}


def test_powers_of_minus_one():
    names = "nmkxjr"
    assert len({canonical(f"(-1)^{name}") for name in names}) == len(names)
    for name in "abcdfghjklmnopqrstuvwxyz":
        for exponent in (name, f"{name}+1", f"{name}({name}+1)/2", f"{name}({name}-1)/2"):
            assert not grade(f"(-1)^{{{exponent}}}", "1"), exponent
            assert not grade(f"(-1)^{{{exponent}}}", "-1"), exponent


@each(
    ("item", "joint", "few", "many"),
    [
        (r"\sin x", "+", 40, 110), ("e^x", "+", 40, 110), ("x!", "+", 20, 70), (r"\arctan x", "+", 20, 70), (r"\binom{x}{60}", "+", 4, 20), (r"\binom{x}{9}", "+", 12, 50), (r"\zeta(3)", "+", 10, 30), ("f(x)", "+", 130, 320),
        (r"(1,2)", r"\cup", 50, 140), ("x>1", " or ", 45, 130), ("x^2>1", " or ", 8, 30), ("x^2-x=0", ", ", 8, 30), ("|x|>1", " or ", 20, 70), (r"\sqrt2", ",", 60, 160), ("(x,1)", ",", 30, 100), ("x!=1", ",", 120, 320),
        ("x^9", "*", 30, 90), ("max(x,1)", "+", 35, 100), (r"\{1\}", r"\cup", 90, 220), ("1/3", "+", 150, 330), ("1", ",", 250, 520),
    ],
)  # fmt: skip
def test_work_is_bounded(item, joint, few, many):
    """What costs more than an answer may is compared as it is written, whatever it is that costs."""
    assert canonical(joint.join([item] * few)).kind in {"exact", "structured", "fingerprint"}
    assert canonical(joint.join([item] * many)).kind in {"opaque", "text"}
