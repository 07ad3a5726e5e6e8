"""Labels: a small number for the place and kind of an access."""

from syncheck.sanitizer.labels import Label, Labels


def test_equal_labels_share_a_number_and_others_have_their_own():
    labels = Labels()
    first = labels.number(3, "aten::add")
    assert labels.number(3, "aten::add") == first
    others = {
        labels.number(4, "aten::add"),
        labels.number(3, "aten::mul"),
        labels.number(3, "aten::add", is_replay=True),
        labels.number(3, "aten::add", is_escape=True),
    }
    assert len(others - {first}) == 4


def test_a_number_maps_back_to_its_label():
    labels = Labels()
    number = labels.number(3, "aten::add", is_escape=True)
    assert labels[number] == Label(3, "aten::add", is_replay=False, is_escape=True)


def test_number_0_is_an_unknown_place():
    labels = Labels()
    assert labels[0] == Label(0, "")
    assert labels.number(1, "aten::add") != 0
